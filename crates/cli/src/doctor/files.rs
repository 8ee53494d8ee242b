//! Files of the kernel.

use std::path::{Path, PathBuf};

/// `/proc` and `/sys`, or copies of them in a test.
#[derive(Debug)]
pub(super) struct Files {
    root: PathBuf,
}

impl Files {
    /// Those of this machine.
    pub(super) fn real() -> Self {
        Self { root: "/".into() }
    }

    /// Those below a folder.
    #[cfg(test)]
    pub(super) fn below(root: &Path) -> Self {
        Self { root: root.to_owned() }
    }

    /// Contents of a file without white space at the ends; `None` if it can't be read.
    pub(super) fn read(&self, path: &str) -> Option<String> {
        Some(std::fs::read_to_string(self.path(path)).ok()?.trim().to_owned())
    }

    /// Names in a folder, sorted; none if it can't be read.
    pub(super) fn list(&self, path: &str) -> Vec<String> {
        let entries = std::fs::read_dir(self.path(path)).into_iter().flatten().flatten();
        let mut names = entries.filter_map(|entry| entry.file_name().into_string().ok()).collect::<Vec<_>>();
        names.sort();
        names
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(Path::new(path).strip_prefix("/").unwrap_or(Path::new(path)))
    }
}

/// A folder with files for a test.
#[cfg(test)]
pub(super) fn machine(files: &[(&str, &str)]) -> (tempfile::TempDir, Files) {
    let folder = tempfile::tempdir().unwrap();
    let fake = Files::below(folder.path());
    for (path, text) in files {
        let path = fake.path(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    (folder, fake)
}
