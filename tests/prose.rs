//! Words and long sentences that `docs/STYLE.md` rules out, counted per folder against `prose.tsv`. A count may only fall;
//! `./x bless` writes the lower ones down.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::tidy::{files, root};

/// Words of rule 3 that a machine can tell from the field's own.
const WORDS: [&str; 14] = [
    "what",
    "who",
    "told",
    "so many",
    "nobody",
    "whoever",
    "somebody",
    "held against",
    "that which",
    "turns",
    "lease",
    "squares",
    "eights",
    "business",
];

/// The name under which long sentences of doc comments are counted.
const LONG: &str = "sentences of more than 30 words";
const MOST_WORDS: usize = 30;

/// Folders that are counted one by one; files of the root count as one folder.
const FOLDERS: [&str; 13] =
    ["build", "core", "cube", "cuda", "docs", "fuzz", "cpu", "lab", "native-cli", "shaders", "tests", "tools", "web"];
const ROOT: &str = ".";
const OF_ROOT: [&str; 5] = ["CHANGELOG.md", "CONTRIBUTING.md", "Cargo.toml", "README.md", "index.html"];

/// Endings of files with prose in them.
const ENDINGS: [&str; 11] = ["rs", "md", "html", "js", "mjs", "css", "wgsl", "cu", "cuh", "toml", "py"];

/// Folders without prose of ours, and the files that name the words in order to rule them out.
const LEFT_OUT: [&str; 8] =
    ["node_modules", "target", "artefacts", "corpus", "snapshots", "STYLE.md", "GLOSSARY.md", "prose.rs"];

/// Counts by folder and word.
type Counts = BTreeMap<(String, String), usize>;

/// Files with prose of ours in a folder.
fn with_prose(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    files(folder, &mut found);
    let ours = |path: &PathBuf| {
        let ending = path.extension().unwrap_or_default().to_string_lossy();
        let left_out = |part: &Path| {
            let name = part.file_name().unwrap_or_default().to_string_lossy();
            LEFT_OUT.contains(&&*name) || name.starts_with('.') || part.is_symlink()
        };
        ENDINGS.contains(&&*ending) && !path.ancestors().take_while(|part| *part != root()).any(left_out)
    };
    found.retain(ours);
    found
}

/// How often a word stands in a text, between characters that belong to no word.
fn occurrences(text: &str, word: &str) -> usize {
    let inner = |c: Option<char>| c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let alone = |(at, _): &(usize, &str)| {
        !inner(text[..*at].chars().next_back()) && !inner(text[at + word.len()..].chars().next())
    };
    text.match_indices(word).filter(alone).count()
}

/// Sentences of more than [`MOST_WORDS`] words in a Rust file's doc comments.
fn long_sentences(text: &str) -> usize {
    let mut prose = String::new();
    for line in text.lines().map(str::trim_start) {
        match line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) {
            Some(comment) => prose += comment,
            None => prose += ". ",
        }
        prose.push(' ');
    }
    let words =
        |sentence: &str| sentence.split_whitespace().filter(|word| word.chars().any(char::is_alphabetic)).count();
    prose.split(". ").filter(|sentence| words(sentence) > MOST_WORDS).count()
}

fn counted() -> Counts {
    let mut counts = Counts::new();
    let mut count = |folder: &str, path: &Path| {
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let lower = text.to_lowercase();
        let found = WORDS.iter().map(|word| (*word, occurrences(&lower, word)));
        let long = if path.extension().is_some_and(|ending| ending == "rs") { long_sentences(&text) } else { 0 };
        for (word, number) in found.chain([(LONG, long)]).filter(|(_, number)| *number > 0) {
            *counts.entry((folder.to_owned(), word.to_owned())).or_default() += number;
        }
    };
    for folder in FOLDERS {
        with_prose(&root().join(folder)).iter().for_each(|path| count(folder, path));
    }
    OF_ROOT.iter().for_each(|file| count(ROOT, &root().join(file)));
    counts
}

fn baseline_path() -> PathBuf {
    root().join("tests/prose.tsv")
}

/// The counts that were written down.
fn baseline() -> Counts {
    let text = std::fs::read_to_string(baseline_path()).expect("tests/prose.tsv");
    let row = |line: &str| {
        let mut cells = line.split('\t').map(str::to_owned);
        let (folder, word) = (cells.next().expect("a folder"), cells.next().expect("a word"));
        ((folder, word), cells.next().and_then(|number| number.parse().ok()).expect("a number"))
    };
    text.lines().map(row).collect()
}

#[test]
fn words_that_the_style_rules_out_only_become_fewer() {
    let (found, mut allowed) = (counted(), baseline());
    let more: Vec<String> = found
        .iter()
        .filter_map(|(key, number)| {
            let most = allowed.get(key).copied().unwrap_or(0);
            (*number > most).then(|| format!("{}: {number} × `{}`, not {most}", key.0, key.1))
        })
        .collect();
    assert!(more.is_empty(), "docs/STYLE.md has the words to use:\n{}", more.join("\n"));
    if std::env::var_os("PARALLAX_BLESS").is_some() {
        allowed.retain(|key, _| found.contains_key(key));
        allowed.extend(found);
        let lines = allowed.iter().map(|((folder, word), number)| format!("{folder}\t{word}\t{number}\n"));
        std::fs::write(baseline_path(), lines.collect::<String>()).expect("writable");
    }
}

#[test]
fn words_and_sentences_are_counted() {
    assert_eq!(occurrences("told, untold told_x (told) toldest", "told"), 2);
    assert_eq!(occurrences("in so many words", "so many"), 1);
    let long = format!("/// {}.\n/// Short.\nfn x() {{}}\n", "word ".repeat(31));
    assert_eq!((long_sentences(&long), long_sentences("/// One. Two.\n// Three")), (1, 0));
}
