//! Input that is typed at the prompt.

use std::fs;

use crate::pty::Prompt;

#[test]
fn a_statement_goes_on_until_its_semicolon() {
    let folder = tempfile::tempdir().expect("a folder");
    let mut prompt = Prompt::start(folder.path());
    prompt.enter("SELECT 'a' AS x,");
    prompt.expect("-> ");
    prompt.enter("'b' AS y;");
    prompt.expect("| a | b |");
    prompt.expect("> ");
    // Commands are obeyed in the middle of a statement.
    prompt.enter("SELECT");
    prompt.expect("-> ");
    prompt.enter("\\?");
    prompt.expect("list the tables");
    prompt.expect("-> ");
    prompt.enter("quit");
    prompt.expect("A statement goes on");
    prompt.expect("-> ");
    // Ctrl-C drops it.
    prompt.send("nothing\x03");
    prompt.expect("\n");
    prompt.expect("> ");
    prompt.enter("SELECT 7 AS n; SELEC; SELECT 8 AS n;");
    prompt.expect("| 7 |");
    prompt.expect("found: SELEC");
    prompt.expect("| 8 |");
    prompt.enter("exit");
    assert_eq!(prompt.wait(), Some(0));
}

#[test]
fn words_of_other_shells_leave() {
    let folder = tempfile::tempdir().expect("a folder");
    for word in ["exit", "exit;", "quit", "QUIT ;", "\\q"] {
        let mut prompt = Prompt::start(folder.path());
        prompt.enter(word);
        assert_eq!(prompt.wait(), Some(0), "{word}");
    }
}

#[test]
fn the_history_is_kept_after_each_statement() {
    let folder = tempfile::tempdir().expect("a folder");
    let history = folder.path().join(".simjoin_history");
    let mut prompt = Prompt::start(folder.path());
    prompt.enter("SELECT");
    prompt.expect("-> ");
    prompt.enter("11 AS n;");
    prompt.expect("| 11 |");
    prompt.expect("> ");
    let kept = fs::read_to_string(&history).expect("a history");
    assert!(kept.contains("SELECT\\n11 AS n;"), "{kept:?}");
    prompt.signal(libc::SIGKILL);
    prompt.wait();
    // The arrow brings the whole statement back.
    let mut prompt = Prompt::start(folder.path());
    prompt.send("\x1b[A\r");
    prompt.expect("| 11 |");
}
