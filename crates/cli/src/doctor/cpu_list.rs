//! Lists of cores as the kernel writes them: "0-3,8".

/// Reads a list; what isn't a number is skipped.
pub(super) fn parse(text: &str) -> Vec<u32> {
    let ranges = text.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.trim().parse::<u32>().ok()?..=last.trim().parse::<u32>().ok()?)
    });
    ranges.flatten().collect()
}

/// Writes a list; numbers must be sorted.
pub(super) fn format(cores: &[u32]) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for core in cores {
        match ranges.last_mut() {
            Some((_, last)) if last.checked_add(1) == Some(*core) => *last = *core,
            _ => ranges.push((*core, *core)),
        }
    }
    let range = |(first, last): &(u32, u32)| {
        if first == last { first.to_string() } else { format!("{first}-{last}") }
    };
    ranges.iter().map(range).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back() {
        for text in ["0", "0-3", "0-3,8", "1,3,5-7"] {
            assert_eq!(format(&parse(text)), text);
        }
        assert_eq!(parse(" 0-1\n"), [0, 1]);
        assert!(parse("").is_empty());
        assert!(parse("(null)").is_empty());
        assert_eq!(format(&[]), "");
    }
}
