//! Files that a command writes.

use std::path::Path;

use anyhow::bail;

/// An output takes the place of a file of its name; the user's model or data must not be it.
pub(crate) fn refuse_overwriting(
    flag: &str,
    output: &Path,
    inputs: &[&Path],
) -> anyhow::Result<()> {
    // A file that does not exist overwrites nothing.
    let Ok(existing) = output.canonicalize() else {
        return Ok(());
    };
    for input in inputs {
        // The part behind a colon names arrays in the file.
        let text = input.to_string_lossy();
        let file = text.rsplit_once(':').map(|(file, _)| Path::new(file));
        let same = |path: &Path| path.canonicalize().is_ok_and(|path| path == existing);
        if same(input) || file.is_some_and(same) {
            bail!("`{flag} {}` would overwrite what is read", output.display());
        }
    }
    Ok(())
}
