//! How many lines each panel gets.

/// Lines of the smallest panel: title, headings, one row.
const LEAST: u16 = 3;

/// Shares `room` lines out among panels that want `wants` rows each. Panels that find no room get 0; the first ones come
/// first. What is left over when all have enough stays empty.
pub(super) fn heights<const N: usize>(room: u16, wants: [u16; N]) -> [u16; N] {
    let mut left = room;
    let mut heights = wants.map(|_| {
        let height = if left >= LEAST { LEAST } else { 0 };
        left -= height;
        height
    });
    // A line to each in turn, so that a long panel doesn't starve the others.
    let mut grown = true;
    while left > 0 && grown {
        grown = false;
        for (height, want) in heights.iter_mut().zip(wants) {
            if left > 0 && *height > 0 && *height < want.saturating_add(2) {
                *height += 1;
                left -= 1;
                grown = true;
            }
        }
    }
    heights
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_screens_show_the_first_panels() {
        assert_eq!(heights(0, [1, 5, 5, 5]), [0, 0, 0, 0]);
        assert_eq!(heights(4, [1, 5, 5, 5]), [3, 0, 0, 0]);
        assert_eq!(heights(7, [1, 5, 5, 5]), [3, 4, 0, 0]);
    }

    #[test]
    fn large_screens_give_everybody_enough() {
        assert_eq!(heights(100, [1, 5, 5, 0]), [3, 7, 7, 3]);
        assert_eq!(heights(16, [2, 50, 50, 0]), [4, 5, 4, 3]);
    }
}
