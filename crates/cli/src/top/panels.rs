//! Headings and rows of each panel.

use ratatui::layout::Constraint;
use ratatui::style::{Color, Modifier, Style};
use ratatui::widgets::{Cell, Row};

use super::app::Panel;
use super::figures::Figures;
use crate::render::Tone;
use crate::render::number::{bit_rate, packet_rate, percent, ratio};

/// Characters of the bar that shows a load.
const BAR: usize = 20;

/// A panel's title, headings, widths and rows.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) title: &'static str,
    pub(super) headings: &'static [&'static str],
    pub(super) widths: Vec<Constraint>,
    pub(super) rows: Vec<Row<'static>>,
    /// What stands there when there are no rows.
    pub(super) empty: &'static str,
}

/// The style of a meaning.
pub(super) fn style(tone: Tone, color: bool) -> Style {
    let plain = Style::new();
    match tone {
        Tone::Strong => plain.add_modifier(Modifier::BOLD),
        Tone::Faint => plain.add_modifier(Modifier::DIM),
        _ if !color => plain,
        Tone::Good => plain.fg(Color::Green),
        Tone::Warn => plain.fg(Color::Yellow),
        Tone::Bad => plain.fg(Color::Red),
        Tone::Plain => plain,
    }
}

/// What a panel shows.
pub(super) fn content(panel: Panel, figures: &Figures, color: bool) -> Content {
    match panel {
        Panel::Workers => workers(figures, color),
        Panel::Interfaces => interfaces(figures, color),
        Panel::Nodes => nodes(figures),
        Panel::Drops => drops(figures, color),
    }
}

/// Columns of these widths.
fn lengths<const N: usize>(widths: [u16; N]) -> Vec<Constraint> {
    widths.map(Constraint::Length).to_vec()
}

fn workers(figures: &Figures, color: bool) -> Content {
    let rows = figures.workers.iter().map(|worker| {
        let tone = match worker.load {
            load if load >= 0.9 => Tone::Bad,
            load if load >= 0.7 => Tone::Warn,
            _ => Tone::Good,
        };
        // A share above one or no number at all must not break the bar.
        let filled = (worker.load.clamp(0.0, 1.0) * BAR as f64).round() as usize;
        let bar = format!("{}{}", "|".repeat(filled), " ".repeat(BAR - filled.min(BAR)));
        Row::new([
            Cell::from(format!("worker {}", worker.index)),
            Cell::from(format!("{}", worker.core)),
            Cell::from(format!("[{bar}] {:>5}", percent(worker.load))).style(style(tone, color)),
            Cell::from(packet_rate(worker.packets)),
            Cell::from(worker.summary.clone()),
        ])
    });
    let mut widths = lengths([10, 5, 29, 11]);
    widths.push(Constraint::Fill(1));
    Content {
        title: "1 Workers",
        headings: &["WORKER", "CORE", "LOAD", "PACKETS", ""],
        widths,
        rows: rows.collect(),
        empty: "no workers",
    }
}

fn interfaces(figures: &Figures, color: bool) -> Content {
    let rows = figures.interfaces.iter().map(|interface| {
        let tone = match interface.state {
            "up" => Tone::Good,
            "down" => Tone::Bad,
            _ => Tone::Faint,
        };
        let drops = if interface.drops > 0.0 { Tone::Warn } else { Tone::Plain };
        Row::new([
            Cell::from(interface.name.clone()),
            Cell::from(interface.state).style(style(tone, color)),
            Cell::from(packet_rate(interface.rx_packets)),
            Cell::from(bit_rate(interface.rx_bytes)),
            Cell::from(packet_rate(interface.tx_packets)),
            Cell::from(bit_rate(interface.tx_bytes)),
            Cell::from(packet_rate(interface.drops)).style(style(drops, color)),
        ])
    });
    Content {
        title: "2 Interfaces",
        headings: &["INTERFACE", "STATE", "RX", "", "TX", "", "DROPS"],
        widths: lengths([18, 10, 10, 10, 10, 10, 10]),
        rows: rows.collect(),
        empty: "no interfaces: quiver apply -f FILE makes some",
    }
}

fn nodes(figures: &Figures) -> Content {
    let rows = figures.nodes.iter().filter(|node| node.packets > 0 || node.clocks > 0).map(|node| {
        let clocks = if node.clocks == 0 { "-".into() } else { ratio(node.clocks, node.packets) };
        Row::new([
            Cell::from(node.name.clone()),
            Cell::from(node.share.map_or_else(|| "-".into(), percent)),
            Cell::from(clocks),
            Cell::from(ratio(node.packets, node.vectors)),
            Cell::from(packet_rate(node.rate)),
        ])
    });
    Content {
        title: "3 Nodes",
        headings: &["NODE", "CLOCKS", "PER PACKET", "PER VECTOR", "PACKETS"],
        widths: lengths([24, 7, 11, 11, 11]),
        rows: rows.collect(),
        empty: "no node had anything to do",
    }
}

fn drops(figures: &Figures, color: bool) -> Content {
    let rows = figures.drops.iter().map(|drop| {
        let tone = if drop.rate > 0.0 { crate::show::severity_tone(drop.severity) } else { Tone::Plain };
        Row::new([
            Cell::from(packet_rate(drop.rate)).style(style(tone, color)),
            Cell::from(drop.reason.clone()),
            Cell::from(drop.node.clone()),
            Cell::from(drop.interface.clone()),
            Cell::from(drop.packets.to_string()),
        ])
    });
    Content {
        title: "4 Drops",
        headings: &["RATE", "REASON", "NODE", "INTERFACE", "PACKETS"],
        widths: lengths([10, 24, 18, 16, 16]),
        rows: rows.collect(),
        empty: "no packet was dropped",
    }
}
