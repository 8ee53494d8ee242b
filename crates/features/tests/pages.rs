//! Each folder of nodes has its page, which says what they cost.

use std::error::Error;
use std::fs;
use std::path::Path;

#[test]
fn each_folder_of_nodes_says_what_they_cost() -> Result<(), Box<dyn Error>> {
    let mut told = 0;
    for folder in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src"))? {
        let folder = folder?.path();
        // Nodes that only tests have cost nobody anything.
        if !folder.is_dir() || folder.ends_with("testing") || !has_nodes(&folder)? {
            continue;
        }
        let page = fs::read_to_string(folder.join("README.md"))
            .map_err(|error| format!("{}: its README.md: {error}", folder.display()))?;
        assert!(page.contains("\n**Cost**"), "{}: its README.md has no **Cost**", folder.display());
        told += 1;
    }
    assert!(told > 10, "{told} folders only");
    Ok(())
}

/// Whether a node is declared in one of its files.
fn has_nodes(folder: &Path) -> Result<bool, Box<dyn Error>> {
    for file in fs::read_dir(folder)? {
        let file = file?.path();
        if file.extension().is_some_and(|name| name == "rs")
            && fs::read_to_string(&file)?.contains(" NODE: NodeSpec")
        {
            return Ok(true);
        }
    }
    Ok(false)
}
