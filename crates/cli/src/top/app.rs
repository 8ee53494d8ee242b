//! What the user has chosen.

use std::time::Duration;

use ratatui::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

/// Shortest and longest time between samples.
const INTERVALS: (Duration, Duration) = (Duration::from_millis(250), Duration::from_secs(60));

/// A panel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Panel {
    /// Workers with their load.
    Workers,
    /// Interfaces with rates.
    Interfaces,
    /// Nodes by clocks.
    Nodes,
    /// Drops by reason.
    Drops,
}

impl Panel {
    /// All, from top to bottom.
    pub(super) const ALL: [Self; 4] = [Self::Workers, Self::Interfaces, Self::Nodes, Self::Drops];
}

/// In which order lines stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    /// Most clocks, packets or drops per second first.
    Busiest,
    /// By name.
    Name,
}

/// The choices.
#[derive(Debug)]
pub(super) struct App {
    /// The one panel that is shown large; `None`: all.
    pub(super) large: Option<Panel>,
    /// Order of lines.
    pub(super) order: Order,
    /// Whether figures stand still.
    pub(super) paused: bool,
    /// Whether the keys are explained.
    pub(super) help: bool,
    /// Lines of the large panel that are above the screen.
    pub(super) scroll: usize,
    /// Time between samples.
    pub(super) interval: Duration,
    /// What is wrong with quiverd at this moment; empty: nothing.
    pub(super) trouble: String,
    /// Whether to use colours.
    pub(super) color: bool,
}

/// What to do after a key.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Next {
    /// Draw again.
    Draw,
    /// End.
    Quit,
    /// Nothing.
    Nothing,
}

impl App {
    /// At the start.
    pub(super) fn new(interval: Duration, color: bool) -> Self {
        Self {
            large: None,
            order: Order::Busiest,
            paused: false,
            help: false,
            scroll: 0,
            interval: interval.clamp(INTERVALS.0, INTERVALS.1),
            trouble: String::new(),
            color,
        }
    }

    /// Does what a key means.
    pub(super) fn key(&mut self, key: KeyEvent) -> Next {
        if key.modifiers.contains(KeyModifiers::CONTROL) {
            return if key.code == KeyCode::Char('c') { Next::Quit } else { Next::Nothing };
        }
        match key.code {
            // The first Esc closes what is open.
            KeyCode::Esc if self.help => self.help = false,
            KeyCode::Esc if self.large.is_some() => self.show(None),
            KeyCode::Char('q') | KeyCode::Esc => return Next::Quit,
            KeyCode::Char('h' | '?') => self.help = !self.help,
            KeyCode::Char('p' | ' ') => self.paused = !self.paused,
            KeyCode::Char('s') => {
                self.order = if self.order == Order::Busiest { Order::Name } else { Order::Busiest };
            }
            KeyCode::Char('+') => self.interval = (self.interval / 2).max(INTERVALS.0),
            KeyCode::Char('-') => self.interval = (self.interval * 2).min(INTERVALS.1),
            KeyCode::Char('0') => self.show(None),
            KeyCode::Char(digit @ '1'..='4') => {
                let panel = digit.to_digit(10).and_then(|digit| Panel::ALL.get(digit as usize - 1));
                self.show(panel.copied());
            }
            KeyCode::Tab => {
                let after = self.large.and_then(|panel| Panel::ALL.iter().position(|it| *it == panel));
                self.show(Panel::ALL.get(after.map_or(0, |place| place + 1)).copied());
            }
            KeyCode::Down => self.scroll = self.scroll.saturating_add(1),
            KeyCode::Up => self.scroll = self.scroll.saturating_sub(1),
            KeyCode::PageDown => self.scroll = self.scroll.saturating_add(10),
            KeyCode::PageUp => self.scroll = self.scroll.saturating_sub(10),
            KeyCode::Home => self.scroll = 0,
            _ => return Next::Nothing,
        }
        Next::Draw
    }

    fn show(&mut self, panel: Option<Panel>) {
        self.large = panel;
        self.scroll = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn press(app: &mut App, code: KeyCode) -> Next {
        app.key(KeyEvent::new(code, KeyModifiers::NONE))
    }

    #[test]
    fn keys() {
        let mut app = App::new(Duration::from_secs(1), false);
        assert_eq!(press(&mut app, KeyCode::Char('3')), Next::Draw);
        assert_eq!(app.large, Some(Panel::Nodes));
        press(&mut app, KeyCode::Down);
        assert_eq!(app.scroll, 1);
        press(&mut app, KeyCode::Tab);
        assert_eq!((app.large, app.scroll), (Some(Panel::Drops), 0));
        press(&mut app, KeyCode::Tab);
        assert_eq!(app.large, None);
        press(&mut app, KeyCode::Char('s'));
        assert_eq!(app.order, Order::Name);
        assert_eq!(press(&mut app, KeyCode::Char('x')), Next::Nothing);
        assert_eq!(press(&mut app, KeyCode::Char('q')), Next::Quit);
        assert_eq!(app.key(KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Next::Quit);
    }

    #[test]
    fn escape_goes_one_step_back() {
        let mut app = App::new(Duration::from_secs(1), false);
        press(&mut app, KeyCode::Char('1'));
        press(&mut app, KeyCode::Char('h'));
        assert_eq!(press(&mut app, KeyCode::Esc), Next::Draw);
        assert!(!app.help && app.large.is_some());
        assert_eq!(press(&mut app, KeyCode::Esc), Next::Draw);
        assert_eq!(app.large, None);
        assert_eq!(press(&mut app, KeyCode::Esc), Next::Quit);
    }

    #[test]
    fn speed_has_bounds() {
        let mut app = App::new(Duration::from_secs(1), false);
        for _ in 0..20 {
            press(&mut app, KeyCode::Char('+'));
        }
        assert_eq!(app.interval, INTERVALS.0);
        for _ in 0..20 {
            press(&mut app, KeyCode::Char('-'));
        }
        assert_eq!(app.interval, INTERVALS.1);
    }
}
