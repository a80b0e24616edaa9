//! Kernel sources: lookup and imports.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use super::Translator;

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

/// Function from a file's name and source to the source whose lines count.
type Resolve<'a, E> = dyn Fn(&str, Cow<'static, str>) -> Result<Cow<'static, str>, E> + 'a;

/// Error of assembling a kernel source.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TextError {
    /// Source that does not exist.
    #[error("no kernel source {0}")]
    Missing(String),
    /// Import of a source that does not exist.
    #[error("{file}, line {line}: no file {import} to import")]
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
    pub fn with_lookup(
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
    pub fn with_imports(
        &self,
        file: &str,
        import: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Vec<SourceChunk>, TextError> {
        self.with_imports_of(file, &|_, text| Ok(text), import)
    }

    /// Returns the same of each file's source as `resolve` returns it, by the file's name. Line numbers count its lines.
    ///
    /// # Errors
    /// Missing or unreadable source, and those of `resolve`.
    pub fn with_imports_of<E: From<TextError>>(
        &self,
        file: &str,
        resolve: &Resolve<'_, E>,
        import: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Vec<SourceChunk>, E> {
        let text = self.find(file)?.ok_or_else(|| TextError::Missing(file.to_owned()))?;
        let mut parts = Vec::new();
        self.walk((file, text), resolve, import, &mut vec![file.to_owned()], &mut parts)?;
        Ok(parts)
    }

    fn walk<E: From<TextError>>(
        &self,
        (file, text): (&str, Cow<'static, str>),
        resolve: &Resolve<'_, E>,
        import: &dyn Fn(&str) -> Option<String>,
        seen: &mut Vec<String>,
        parts: &mut Vec<SourceChunk>,
    ) -> Result<(), E> {
        let own = matches!(text, Cow::Borrowed(_));
        let text = resolve(file, text)?;
        let part = |first_line, lines| SourceChunk { file: file.to_owned(), first_line, text: lines, own };
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
            self.walk((&wanted, other), resolve, import, seen, parts)?;
        }
        parts.push(part(first_line, lines));
        Ok(())
    }
}

/// Consecutive lines of one file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceChunk {
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
        assert_eq!(error, "d, line 1: no file nothing to import");
    }

    #[test]
    fn each_text_is_resolved_before_its_imports_are_read() {
        let texts = KernelSources::embedded(TEXTS);
        let resolved = |file: &str| {
            let resolve = |name: &str, text: Cow<'static, str>| match name {
                "d" => Err(TextError::Missing("no d".to_owned())),
                _ => Ok(Cow::Owned(text.replace("+c", ""))),
            };
            texts.with_imports_of(file, &resolve, &import)
        };
        let whole = resolved("a").expect("whole");
        let want = [("a", "one\n", true), ("b", "\nof b\n", true), ("a", "\nfour\n", true)];
        assert_eq!(whole.iter().map(|part| (&*part.file, &*part.text, part.own)).collect::<Vec<_>>(), want);
        assert_eq!(resolved("d"), Err(TextError::Missing("no d".to_owned())));
    }

    #[test]
    fn another_place_comes_first_and_its_failures_are_told() {
        let texts = KernelSources::embedded(TEXTS).with_lookup(|file| match file {
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
