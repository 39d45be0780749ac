//! Tests of the page.

use super::assembled;

#[test]
fn data_end_no_script_and_fill_no_place() {
    let page = assembled(r#"{"a":"</script><img src=x>&/*{js}*/{data}"}"#);
    assert!(
        page.contains(r#"{"a":"\u003c/script\u003e\u003cimg src=x\u003e\u0026/*{js}*/{data}"}"#)
    );
    // The place of the script and the one in the data.
    assert_eq!(page.matches("/*{js}*/").count(), 1);
    assert_eq!(page.matches("{data}").count(), 1);
    // The name of SVG is no address.
    let addresses = page.replace("http://www.w3.org/", "");
    assert!(!addresses.contains("http://") && !addresses.contains("https://"));
}
