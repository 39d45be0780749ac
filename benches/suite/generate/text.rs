//! Text like the titles and authors of a bibliography.
//!
//! Character 2-grams of random letters would be far too even. Titles are therefore made of words
//! and names: the frequent ones from short lists, the rare ones by a letter chain learnt from
//! these lists, so that they have the letter pairs of real words. Ranks are Zipfian; a rare word
//! is a function of its rank, so that no vocabulary is kept.

use std::collections::HashMap;

use super::random::Random;
use super::zipf::Zipf;

/// Frequent words of titles, most frequent first.
const TITLE_WORDS: &str = "\
of for and the in a with on learning to networks from neural via data using based deep by \
systems analysis model an models adaptive efficient network graph robust information control \
distributed optimization algorithm detection image approach design optimal representation \
dynamic self multi training time video reinforcement visual adversarial is method algorithms \
generation prediction estimation large processing performance language recognition sparse object \
semantic attention feature semi supervised segmentation local scale online fast policy inference \
domain search linear under evaluation application transformer structure software 3d gradient \
classification generative generalization knowledge software wireless clustering mobile parallel \
selection human space framework convolutional towards stochastic computing latent query queries \
probabilistic matching at structured random causal shot few tracking federated transfer hierarchical \
bayesian guided contrastive understanding point embedding unsupervised variational pre bounds \
decision sampling kernel convergence noise tasks beyond through as without more better you rethinking \
planning theory low high resolution privacy non convex regression diffusion joint explicit implicit \
programming complexity communication simple consistency aware memory improving aggregation driven \
regularization federation rank database management protocol service security engineering scheduling \
simulation web agent agents real natural vision exploration imitation retrieval compression \
reconstruction robotic sequence flow fields interactive pose motion speech text video hybrid \
constraint logic recursive tree trees code coding channel environment user interface requirements \
architecture virtual cloud energy power sensor circuit signal fuzzy genetic evolutionary";

/// Frequent first names and family names, most frequent first.
const FIRST_NAMES: &str = "\
wei david michael yang jun xin daniel yi john li thomas jing lei alexander andrew peter hao \
christian martin jian robert yu chen paul james richard feng yan sebastian tao matthew christopher \
kai ming anna maria mark stefan zhe xiao jonathan ryan benjamin yuan adam simon yong eric qi hui \
nicolas marco joshua kevin tom markus jie stephen julian sergey jason tim philip bo hang ali \
lin andreas amir antonio philipp florian aaron chi kun zhi rui marc laurent francesco yuki hiroshi \
takashi sung min jin hyun seung young ravi anil sanjay amit rahul pierre jean olivier jose carlos \
luis pedro ivan dmitry vladimir olga mohammad ahmed omar fatima sarah emma laura julia elena chris \
william george charles edward henry samuel oliver lucas hugo felix jakob johannes matthias wolfgang";

const LAST_NAMES: &str = "\
wang zhang li liu chen yang zhou wu huang xu zhao sun zhu lin kim lee he guo ma gao lu hu luo \
cheng shen zheng tang song feng cao xie han yu jiang wei fu shi ye xiao tian pan park singh yan \
deng dai peng ding wen fan cui kumar gupta cho shah jain dong choi yuan tan smith jin chang \
sharma wong nguyen johnson ren chan kang yin lai jung zou qiu anderson bengio levine abbeel \
jordan schmidt mueller fischer weber schneider meyer wagner becker hoffmann schulz martin bernard \
dubois moreau laurent rossi russo ferrari bianchi romano garcia martinez lopez gonzalez rodriguez \
fernandez perez sanchez silva santos oliveira pereira costa ivanov petrov smirnov kuznetsov novak \
kowalski tanaka suzuki sato takahashi watanabe yamamoto nakamura kobayashi brown williams jones \
miller davis wilson moore taylor thomas jackson white harris clark lewis robinson walker hall \
allen king wright scott green baker adams nelson hill campbell mitchell roberts carter phillips";

/// Letters of other alphabets, in rare names.
const ACCENTED: &str = "éüöáíñçäèóãšøžłćęāřåýğıúêőąńëôşțâčőîśůūõœùïđēœβαπσλµ";

/// Signs that join two words of a title, and how often among a thousand gaps.
const JOINTS: &[(&str, usize)] = &[
    ("-", 62),
    (": ", 25),
    (", ", 12),
    ("? ", 4),
    (" & ", 2),
    ("/", 2),
    (". ", 3),
    (" (", 2),
    (") ", 2),
    ("'s ", 3),
    ("+", 1),
    (" $", 1),
    ("$ ", 1),
    ("^", 1),
];

/// Makes texts.
pub struct Titles {
    words: Vocabulary,
    first_names: Vocabulary,
    last_names: Vocabulary,
}

impl Titles {
    pub fn new() -> Self {
        Self {
            words: Vocabulary::new(TITLE_WORDS, Zipf::new(400_000, 1.02, 6.0)),
            first_names: Vocabulary::new(FIRST_NAMES, Zipf::new(60_000, 0.95, 14.0)),
            last_names: Vocabulary::new(LAST_NAMES, Zipf::new(250_000, 0.88, 5.0)),
        }
    }

    /// A title and its authors.
    pub fn draw(&self, random: &mut Random, text: &mut String) {
        text.clear();
        // Shares drawn anew for each text: titles and lists of authors differ more than coins do.
        let share = 0.28 + 0.35 * random.unit();
        let words = 4 + binomial(random, 11, share);
        for word in 0..words {
            if word > 0 {
                text.push_str(joint(random));
            }
            match random.below(1000) {
                0..6 => text.push_str(&(2 + random.below(9)).to_string()),
                6..9 => text.push_str(&(1980 + random.below(45)).to_string()),
                _ => self.words.draw(random, text),
            }
        }
        let share = 0.13 + 0.42 * random.unit();
        for _ in 0..1 + binomial(random, 9, share) {
            text.push(' ');
            self.first_names.draw(random, text);
            text.push(' ');
            if random.chance(0.07) {
                text.push((b'a' + random.below(26) as u8) as char);
                text.push_str(". ");
            }
            self.last_names.draw(random, text);
            if random.chance(0.012) {
                text.push('-');
                self.last_names.draw(random, text);
            }
        }
    }
}

fn joint(random: &mut Random) -> &'static str {
    let mut place = random.below(1000);
    for (sign, share) in JOINTS {
        match place.checked_sub(*share) {
            None => return sign,
            Some(rest) => place = rest,
        }
    }
    " "
}

fn binomial(random: &mut Random, n: usize, p: f64) -> usize {
    (0..n).filter(|_| random.chance(p)).count()
}

/// Words by rank: a list, and beyond it made ones.
struct Vocabulary {
    head: Vec<&'static str>,
    chain: LetterChain,
    ranks: Zipf,
}

impl Vocabulary {
    fn new(list: &'static str, ranks: Zipf) -> Self {
        let mut head: Vec<&str> = vec![];
        for word in list.split_whitespace() {
            if !head.contains(&word) {
                head.push(word);
            }
        }
        Self { chain: LetterChain::learn(&head), head, ranks }
    }

    fn draw(&self, random: &mut Random, text: &mut String) {
        let rank = self.ranks.draw(random);
        match self.head.get(rank as usize) {
            Some(word) => text.push_str(word),
            None => self.chain.word(rank, text),
        }
    }
}

/// The letters that follow two letters in a list of words; `^` stands before a word, `$` behind.
struct LetterChain(HashMap<(char, char), Vec<char>>);

impl LetterChain {
    fn learn(words: &[&str]) -> Self {
        let mut followers: HashMap<(char, char), Vec<char>> = HashMap::new();
        for word in words {
            let (mut a, mut b) = ('^', '^');
            for letter in word.chars().chain(['$']) {
                followers.entry((a, b)).or_default().push(letter);
                (a, b) = (b, letter);
            }
        }
        Self(followers)
    }

    /// The word of a rank.
    fn word(&self, rank: u64, text: &mut String) {
        let mut random = Random::new(rank.wrapping_mul(0x2545_F491_4F6C_DD1D));
        let accents = random.chance(0.02);
        let start = text.len();
        let (mut a, mut b) = ('^', '^');
        loop {
            let length = text.len() - start;
            // Mostly letters that were seen after these two; sometimes after the last one alone.
            let letter = match self.0.get(&(a, b)) {
                Some(letters) if !random.chance(0.12) => *random.pick(letters),
                _ => self.after(b, &mut random),
            };
            if letter == '$' {
                // Rare words are not the shortest.
                if length >= 3 {
                    break;
                }
                (a, b) = ('^', b);
                continue;
            }
            if length >= 14 {
                break;
            }
            match accents && random.chance(0.2) {
                true => {
                    let accented: Vec<char> = ACCENTED.chars().collect();
                    text.push(*random.pick(&accented));
                }
                false => text.push(letter),
            }
            (a, b) = (b, letter);
        }
    }

    fn after(&self, last: char, random: &mut Random) -> char {
        const COMMON: &[char] = &['e', 'a', 'i', 'o', 'n', 'r', 's', 't', 'l', 'u', 'm', 'h'];
        match self.0.get(&(*random.pick(COMMON), last)) {
            Some(letters) => *random.pick(letters),
            None => *random.pick(COMMON),
        }
    }
}

/// Changes about a share `noise` of the characters: replaces, drops, adds or swaps some.
pub fn perturb(text: &str, noise: f64, random: &mut Random) -> String {
    let mut changed = String::with_capacity(text.len() + 8);
    for letter in text.chars() {
        if !random.chance(noise) {
            changed.push(letter);
            continue;
        }
        let other = (b'a' + random.below(26) as u8) as char;
        match random.below(3) {
            0 => changed.push(other),
            1 => {}
            _ => {
                changed.push(letter);
                changed.push(other);
            }
        }
    }
    changed
}
