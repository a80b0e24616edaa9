//! Kernel sources: lookup, imports, and lines that depend on constants.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::{Consts, Translator, Value};

/// Kernel sources by file name, as in `matmul/tiled.cu`. An optional lookup precedes the embedded sources and is called every
/// time.
#[derive(Clone)]
pub struct KernelSources {
    embedded: &'static [(&'static str, &'static str)],
    before: Option<Lookup>,
    translator: Option<Arc<dyn Translator>>,
    untranslated: Option<String>,
}

/// Lookup of a source by file name: the source, `None` if there is none, or the reason why it is unreadable.
type Lookup = Arc<dyn Fn(&str) -> Result<Option<String>, String> + Send + Sync>;

/// Error of assembling a kernel source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Source that does not exist.
    #[error("there is no kernel text {0}")]
    Missing(String),
    /// Import of a source that does not exist.
    #[error("{file}, line {line}: there is no {import} to import")]
    Import {
        /// Source that imports.
        file: String,
        /// Line of the import, from one.
        line: usize,
        /// Name of the import.
        import: String,
    },
    /// Failure of the lookup.
    #[error("{file} cannot be read: {why}")]
    Unreadable {
        /// File name.
        file: String,
        /// Reason.
        why: String,
    },
}

impl fmt::Debug for KernelSources {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} texts{}", self.embedded.len(), if self.before.is_some() { " behind another place" } else { "" })
    }
}

impl KernelSources {
    /// Returns the embedded sources alone.
    pub fn embedded(embedded: &'static [(&'static str, &'static str)]) -> KernelSources {
        KernelSources { embedded, before: None, translator: None, untranslated: None }
    }

    /// Adds a lookup before the embedded sources. It is called each time a source is assembled, so that edits take effect.
    pub fn behind(
        self,
        lookup: impl Fn(&str) -> Result<Option<String>, String> + Send + Sync + 'static,
    ) -> KernelSources {
        KernelSources { before: Some(Arc::new(lookup)), ..self }
    }

    /// Sets the translator of kernels written in Rust.
    pub fn translated_by(self, translator: Arc<dyn Translator>) -> KernelSources {
        KernelSources { translator: Some(translator), ..self }
    }

    /// Sets the reason for a missing translator.
    pub fn untranslated_because(self, why: String) -> KernelSources {
        KernelSources { untranslated: Some(why), ..self }
    }

    /// Reason for a missing translator of kernels written in Rust, if known.
    pub fn untranslated(&self) -> Option<&str> {
        self.untranslated.as_deref()
    }

    /// Translator of kernels written in Rust, if any.
    pub fn translator(&self) -> Option<&dyn Translator> {
        self.translator.as_deref()
    }

    /// File names of the embedded sources.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + use<> {
        self.embedded.iter().map(|(name, _)| *name)
    }

    /// Returns the source of a file, borrowed if it is embedded; `Ok(None)` if there is none.
    ///
    /// # Errors
    /// Unreadable source.
    pub fn find(&self, file: &str) -> Result<Option<Cow<'static, str>>, TextError> {
        let unreadable = |why| TextError::Unreadable { file: file.to_owned(), why };
        let other = self.before.as_ref().map_or(Ok(None), |lookup| lookup(file)).map_err(unreadable)?;
        let own = || self.embedded.iter().find(|(name, _)| *name == file).map(|(_, text)| Cow::Borrowed(*text));
        Ok(other.map(Cow::Owned).or_else(own))
    }

    /// Returns a file and all of its direct and indirect imports, each once. A file's imports precede the rest of it, in the
    /// order of their names in it.
    ///
    /// `import` returns the file that a line imports, if the line is an import.
    ///
    /// # Errors
    /// Missing or unreadable source.
    pub fn with_imports(&self, file: &str, import: &dyn Fn(&str) -> Option<String>) -> Result<Vec<Part>, TextError> {
        let text = self.find(file)?.ok_or_else(|| TextError::Missing(file.to_owned()))?;
        let mut parts = Vec::new();
        self.walk(file, text, import, &mut vec![file.to_owned()], &mut parts)?;
        Ok(parts)
    }

    fn walk(
        &self,
        file: &str,
        text: Cow<'static, str>,
        import: &dyn Fn(&str) -> Option<String>,
        seen: &mut Vec<String>,
        parts: &mut Vec<Part>,
    ) -> Result<(), TextError> {
        let own = matches!(text, Cow::Borrowed(_));
        let part = |first_line, lines| Part { file: file.to_owned(), first_line, text: lines, own };
        let (mut first_line, mut lines) = (1, String::new());
        for (i, line) in text.lines().enumerate() {
            let Some(wanted) = import(line) else {
                lines += line;
                lines.push('\n');
                continue;
            };
            if !lines.is_empty() {
                parts.push(part(first_line, std::mem::take(&mut lines)));
            }
            first_line = i + 2;
            if seen.contains(&wanted) {
                continue;
            }
            seen.push(wanted.clone());
            let missing = || TextError::Import { file: file.to_owned(), line: i + 1, import: wanted.clone() };
            let other = self.find(&wanted)?.ok_or_else(missing)?;
            self.walk(&wanted, other, import, seen, parts)?;
        }
        parts.push(part(first_line, lines));
        Ok(())
    }
}

/// Resolves the conditional lines of a source. Of a line `#when NAME rest`, the rest stays if the constant is true. If the
/// constant is false, nothing stays. `#when !NAME rest` is the inverse. Such lines declare bindings or parameters of some shapes
/// only, or with an access that depends on the shape. Lines keep their numbers. A line that names no Boolean constant stays as it
/// is, and no compiler accepts it.
pub fn decided(text: &str, consts: &Consts) -> String {
    text.lines().map(|line| decided_line(line, consts).unwrap_or_else(|| line.to_owned()) + "\n").collect()
}

/// Resolves a conditional line whose constant is known; `None` for other lines. The rest may be a conditional line, too.
fn decided_line(line: &str, consts: &Consts) -> Option<String> {
    let (condition, rest) = line.strip_prefix("#when ")?.split_once(' ')?;
    let (name, wanted) = condition.strip_prefix('!').map_or((condition, true), |name| (name, false));
    match consts.iter().rev().find(|(known, _)| *known == name)?.1 {
        Value::Bool(value) if value == wanted => Some(decided_line(rest, consts).unwrap_or_else(|| rest.to_owned())),
        Value::Bool(_) => Some(String::new()),
        Value::U32(_) | Value::F32(_) => None,
    }
}

/// Consecutive lines of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// File name.
    pub file: String,
    /// Number of the first line in the file, from one.
    pub first_line: usize,
    /// Lines.
    pub text: String,
    /// Whether the file is embedded.
    pub own: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXTS: &[(&str, &str)] =
        &[("a", "one\n+b\n+c\nfour\n"), ("b", "+c\nof b\n"), ("c", "of c\n+a\n"), ("d", "+nothing\n"), ("e", "alone")];

    fn import(line: &str) -> Option<String> {
        line.strip_prefix('+').map(str::to_owned)
    }

    fn parts(texts: &KernelSources, file: &str) -> Result<Vec<(String, usize, String)>, TextError> {
        let parts = texts.with_imports(file, &import)?;
        Ok(parts.into_iter().filter(|p| !p.text.is_empty()).map(|p| (p.file, p.first_line, p.text)).collect())
    }

    #[test]
    fn each_text_is_imported_once_and_keeps_its_line_numbers() {
        let texts = KernelSources::embedded(TEXTS);
        let want = [("a", 1, "one\n"), ("c", 1, "of c\n"), ("b", 2, "of b\n"), ("a", 4, "four\n")];
        let want = want.map(|(file, line, text)| (file.to_owned(), line, text.to_owned()));
        assert_eq!(parts(&texts, "a").expect("a circle ends"), want);
        assert_eq!(parts(&texts, "e").expect("there"), [("e".to_owned(), 1, "alone\n".to_owned())]);
    }

    #[test]
    fn what_is_missing_is_named_with_who_asked() {
        let texts = KernelSources::embedded(TEXTS);
        assert_eq!(parts(&texts, "x"), Err(TextError::Missing("x".to_owned())));
        let error = parts(&texts, "d").expect_err("no such import").to_string();
        assert_eq!(error, "d, line 1: there is no nothing to import");
    }

    #[test]
    fn conditional_lines_are_decided_by_constants_and_no_line_is_lost() {
        let text = "one\n#when A two\n#when B three\n#when !A six\n#when !B seven\n#when N four\n#when C five\n#if A\n\
                    #when A #when !B both\n#when A #when B one\n#when B #when A other\n";
        let consts = vec![("A", true.into()), ("B", false.into()), ("N", 1.into())];
        assert_eq!(decided(text, &consts), "one\ntwo\n\n\nseven\n#when N four\n#when C five\n#if A\nboth\n\n\n");
        assert_eq!(decided("", &consts), "");
    }

    #[test]
    fn another_place_comes_first_and_its_failures_are_told() {
        let texts = KernelSources::embedded(TEXTS).behind(|file| match file {
            "b" => Ok(Some("new\n".to_owned())),
            "e" => Err("a folder".to_owned()),
            _ => Ok(None),
        });
        assert_eq!(parts(&texts, "a").expect("whole")[1], ("b".to_owned(), 1, "new\n".to_owned()));
        let whole = texts.with_imports("a", &import).expect("whole");
        assert!(whole.iter().all(|part| part.own != (part.file == "b")), "b alone is of another place: {whole:?}");
        assert_eq!(parts(&texts, "e").expect_err("unreadable").to_string(), "e cannot be read: a folder");
        assert_eq!(texts.names().count(), TEXTS.len());
    }
}
