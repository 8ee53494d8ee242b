//! Drawing.

use ratatui::Frame;
use ratatui::layout::{Constraint, Layout, Rect};
use ratatui::style::Modifier;
use ratatui::text::{Line, Span};
use ratatui::widgets::{Block, Clear, Paragraph, Row, Table, TableState};

use super::app::{App, Order, Panel};
use super::figures::Figures;
use super::layout::heights;
use super::panels::{Content, content, style};
use crate::render::Tone;
use crate::render::number::span;

/// The keys, as the help explains them.
const KEYS: [(&str, &str); 9] = [
    ("q", "quit; Esc goes one step back first"),
    ("1 2 3 4", "one panel large"),
    ("Tab", "next panel large"),
    ("0", "all panels"),
    ("arrows", "scroll the large panel; also Page Up, Page Down, Home"),
    ("s", "order: busiest first, or by name"),
    ("p", "pause"),
    ("+ -", "faster, slower"),
    ("h", "this help"),
];

/// Draws everything. `figures` are missing until there are two samples.
pub(super) fn draw(frame: &mut Frame<'_>, app: &App, figures: Option<&Figures>) {
    let [head, body, foot] =
        Layout::vertical([Constraint::Length(1), Constraint::Fill(1), Constraint::Length(1)])
            .areas(frame.area());
    frame.render_widget(header(app, figures), head);
    match figures {
        None => frame.render_widget(Paragraph::new("taking the first samples…"), body),
        Some(figures) => match app.large {
            Some(panel) => one(frame, body, panel, app, figures),
            None => all(frame, body, app, figures),
        },
    }
    frame.render_widget(footer(app), foot);
    if app.help {
        help(frame, body);
    }
}

/// The first line: who, since when, how often.
fn header(app: &App, figures: Option<&Figures>) -> Line<'static> {
    let mut text = "quiver top".to_owned();
    if let Some(figures) = figures {
        text.push_str(&format!(
            "  {} up {}  generation {}",
            figures.version,
            span(figures.uptime),
            figures.generation
        ));
    }
    let order = if app.order == Order::Name { "  by name" } else { "" };
    text.push_str(&format!("  every {}{order}", span(app.interval.as_secs_f64())));
    let mut spans = vec![Span::styled(text, style(Tone::Strong, app.color))];
    if app.paused {
        spans.push(Span::styled("  paused", style(Tone::Warn, app.color)));
    }
    Line::from(spans)
}

/// The last line: trouble if there is any, else the keys.
fn footer(app: &App) -> Line<'static> {
    if app.trouble.is_empty() {
        let keys = "q quit  Tab panel  0 all  s order  p pause  +- speed  h help";
        Line::styled(keys, style(Tone::Faint, app.color))
    } else {
        Line::styled(format!("{}; trying again", app.trouble), style(Tone::Bad, app.color))
    }
}

/// All panels that find room.
fn all(frame: &mut Frame<'_>, area: Rect, app: &App, figures: &Figures) {
    let contents = Panel::ALL.map(|panel| content(panel, figures, app.color));
    let wants = std::array::from_fn::<u16, 4, _>(|index| {
        let rows = contents.get(index).map_or(0, |content| content.rows.len());
        u16::try_from(rows).unwrap_or(u16::MAX).max(1)
    });
    let mut top = area.y;
    for (content, height) in contents.into_iter().zip(heights(area.height, wants)) {
        if height > 0 {
            table(frame, Rect { y: top, height, ..area }, content, 0, app.color);
            top += height;
        }
    }
}

/// One panel, scrolled, but never beyond its last row.
fn one(frame: &mut Frame<'_>, area: Rect, panel: Panel, app: &App, figures: &Figures) {
    let content = content(panel, figures, app.color);
    let scroll = app.scroll.min(content.rows.len().saturating_sub(1));
    table(frame, area, content, scroll, app.color);
}

/// A title, and a table or what stands in its place.
fn table(frame: &mut Frame<'_>, area: Rect, content: Content, scroll: usize, color: bool) {
    let title = Line::styled(content.title, style(Tone::Strong, color).add_modifier(Modifier::REVERSED));
    let block = Block::new().title_top(title);
    if content.rows.is_empty() {
        frame.render_widget(Paragraph::new(content.empty).block(block), area);
        return;
    }
    let headings = Row::new(content.headings.iter().copied()).style(style(Tone::Faint, color));
    let table = Table::new(content.rows, content.widths).header(headings).column_spacing(1).block(block);
    frame.render_stateful_widget(table, area, &mut TableState::new().with_offset(scroll));
}

/// The keys, over everything else.
fn help(frame: &mut Frame<'_>, area: Rect) {
    let lines = KEYS.map(|(key, meaning)| Line::from(format!(" {key:<8} {meaning}")));
    let area = Rect { width: area.width.min(66), height: area.height.min(KEYS.len() as u16 + 2), ..area };
    frame.render_widget(Clear, area);
    frame.render_widget(Paragraph::new(lines.to_vec()).block(Block::bordered().title_top("Keys")), area);
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use ratatui::crossterm::event::{KeyCode, KeyEvent};

    use super::super::figures::tests::sample;
    use super::*;

    /// The screen as text, blanks at line ends left out.
    fn screen(width: u16, height: u16, keys: &[KeyCode]) -> String {
        let start = Instant::now();
        let mut app = App::new(Duration::from_secs(1), false);
        keys.iter().for_each(|key| {
            app.key(KeyEvent::from(*key));
        });
        let figures = Figures::new(&sample(start, 1), &sample(start, 2), app.order);
        let mut terminal = Terminal::new(TestBackend::new(width, height)).unwrap();
        terminal.draw(|frame| draw(frame, &app, Some(&figures))).unwrap();
        let buffer = terminal.backend().buffer();
        let line = |y| (0..width).map(|x| buffer[(x, y)].symbol()).collect::<String>();
        (0..height).map(|y| line(y).trim_end().to_owned() + "\n").collect()
    }

    #[test]
    fn a_large_screen() {
        assert_eq!(
            screen(100, 22, &[]),
            "quiver top  quiverd 0.1.0 up 2h05m  generation 7  every 1 s\n\
             1 Workers\n\
             WORKER     CORE  LOAD                          PACKETS\n\
             worker 0   1     [|||||||             ]  37 %  12.3 Mpps   polling 2 queues\n\
             worker 1   2     [|||||||             ]  37 %  12.3 Mpps   polling 2 queues\n\
             2 Interfaces\n\
             INTERFACE          STATE      RX                    TX                    DROPS\n\
             pod-b              up         12.3 Mpps  6.30 Gbps  12.3 Mpps  6.30 Gbps  10 pps\n\
             pod-a              up         100 pps    51.2 kbps  100 pps    51.2 kbps  10 pps\n\
             pod-c              down       0 pps      0 bps      0 pps      0 bps      10 pps\n\
             3 Nodes\n\
             NODE                     CLOCKS  PER PACKET  PER VECTOR  PACKETS\n\
             ip4-lookup               67 %    60          256         5.12 kpps\n\
             memif-input              33 %    30          256         5.12 kpps\n\
             idle                     0 %     -           256         5.12 kpps\n\
             4 Drops\n\
             RATE       REASON                   NODE               INTERFACE        PACKETS\n\
             1 kpps     ttl-expired              ip4-input          pod-a            2000\n\
             5 pps      no-route                 ip4-input          pod-a            10\n\
             \n\
             \n\
             q quit  Tab panel  0 all  s order  p pause  +- speed  h help\n"
        );
    }

    #[test]
    fn a_small_screen() {
        let text = screen(40, 8, &[]);
        assert!(text.contains("1 Workers") && text.contains("2 Interfaces"), "{text}");
        assert!(!text.contains("3 Nodes"), "{text}");
        assert_eq!(text.lines().count(), 8);
        for (width, height) in [(1, 1), (5, 2), (10, 3), (300, 80)] {
            screen(width, height, &[KeyCode::Char('h')]);
        }
    }

    #[test]
    fn one_panel_scrolled() {
        let text = screen(80, 10, &[KeyCode::Char('2'), KeyCode::Down]);
        assert!(text.contains("pod-a") && !text.contains("pod-b"), "{text}");
        let far = screen(80, 10, &[KeyCode::Char('2'), KeyCode::PageDown, KeyCode::PageDown]);
        assert!(far.contains("pod-c"), "{far}");
    }

    #[test]
    fn help_and_pause() {
        let text = screen(80, 20, &[KeyCode::Char('p'), KeyCode::Char('h')]);
        assert!(text.lines().next().unwrap().ends_with("paused"), "{text}");
        for (key, _) in KEYS {
            assert!(text.contains(key), "{key}");
        }
    }
}
