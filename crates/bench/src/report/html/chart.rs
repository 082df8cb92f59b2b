//! Lines in a frame, as SVG in which only the lines are stretched.
//!
//! A chart that is scaled as a whole has letters of four pixels on a phone. Here places are percentages of the frame,
//! names along the edges are ordinary text, and strokes keep their width.

use super::axis::{Axis, Tick};
use super::page::escape;
use std::fmt::Write;

/// Lines look different up to this number; then they repeat.
const STYLES: usize = 6;

/// A chart of one or more lines.
#[derive(Debug)]
pub(crate) struct Chart {
    /// Its name within the page.
    pub(crate) id: &'static str,
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

/// A line and its points: values along both axes, and what a pointer shows.
#[derive(Debug)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) points: Vec<(f64, f64, String)>,
}

impl Chart {
    /// The chart as a figure. Whoever cannot see it finds the same figures in the table beside it.
    pub(super) fn to_html(&self) -> String {
        let mut html = String::new();
        let title = escape(&self.title);
        // Writing to a string cannot fail, here and below.
        let _ = write!(html, "<figure class=\"chart\" id=\"{}\">\n<figcaption>{title}</figcaption>\n", self.id);
        if self.lines.len() > 1 {
            html.push_str(&self.legend());
        }
        let _ = writeln!(html, "<p class=\"axis\">{}</p>\n<div class=\"frame\">", escape(&self.y.title));
        html.push_str(&labels("y", &self.y.ticks, |tick| format!("bottom:{}", percent(tick.place))));
        let summary = format!("Chart: {title}. The table next to it holds the same figures.");
        let _ = writeln!(html, "<svg class=\"plot\" role=\"img\" aria-label=\"{summary}\">");
        html.push_str(&self.grid());
        for (number, line) in self.lines.iter().enumerate() {
            html.push_str(&self.line(number % STYLES, line));
        }
        html.push_str("</svg>\n");
        html.push_str(&labels("x", &self.x.ticks, |tick| format!("left:{}", percent(tick.place))));
        let _ = write!(html, "</div>\n<p class=\"axis below\">{}</p>\n</figure>\n", escape(&self.x.title));
        html
    }

    fn legend(&self) -> String {
        let mut html = String::from("<ul class=\"legend\">\n");
        for (number, line) in self.lines.iter().enumerate() {
            let style = number % STYLES;
            let sample = format!("<line class=\"line s{style}\" x1=\"0\" x2=\"100%\" y1=\"50%\" y2=\"50%\"/>");
            let name = escape(&line.name);
            let _ = writeln!(html, "<li><svg class=\"sample\" aria-hidden=\"true\">{sample}</svg>{name}</li>");
        }
        html.push_str("</ul>\n");
        html
    }

    fn grid(&self) -> String {
        let mut html = String::new();
        for tick in &self.y.ticks {
            let place = percent(1.0 - tick.place);
            let _ = writeln!(html, "<line class=\"grid\" x1=\"0\" x2=\"100%\" y1=\"{place}\" y2=\"{place}\"/>");
        }
        for tick in &self.x.ticks {
            let place = percent(tick.place);
            let _ = writeln!(html, "<line class=\"grid\" y1=\"0\" y2=\"100%\" x1=\"{place}\" x2=\"{place}\"/>");
        }
        html
    }

    fn line(&self, style: usize, line: &Line) -> String {
        let mut html = String::new();
        let places: Vec<(f64, f64)> =
            line.points.iter().map(|(x, y, _)| (self.x.place(*x), 1.0 - self.y.place(*y))).collect();
        let stretched: Vec<String> =
            places.iter().map(|(x, y)| format!("{:.1},{:.1}", x * 1_000.0, y * 1_000.0)).collect();
        let _ = writeln!(
            html,
            "<svg viewBox=\"0 0 1000 1000\" preserveAspectRatio=\"none\" width=\"100%\" height=\"100%\">\
             <polyline class=\"line s{style}\" points=\"{}\"/></svg>",
            stretched.join(" ")
        );
        for ((x, y), (_, _, tip)) in places.iter().zip(&line.points) {
            let (x, y, tip) = (percent(*x), percent(*y), escape(tip));
            let several = if self.lines.len() > 1 { format!("{}, ", escape(&line.name)) } else { String::new() };
            let _ = writeln!(
                html,
                "<circle class=\"dot s{style}\" cx=\"{x}\" cy=\"{y}\" r=\"3\"><title>{several}{tip}</title></circle>"
            );
        }
        html
    }
}

/// Names along an edge. The table says the same to a screen reader.
fn labels(edge: &str, ticks: &[Tick], place: impl Fn(&Tick) -> String) -> String {
    let mut html = format!("<div class=\"labels {edge}\" aria-hidden=\"true\">");
    for tick in ticks {
        let class = if tick.is_minor && edge == "x" { " class=\"minor\"" } else { "" };
        let _ = write!(html, "<span{class} style=\"{}\">{}</span>", place(tick), escape(&tick.name));
    }
    html.push_str("</div>\n");
    html
}

fn percent(place: f64) -> String {
    format!("{:.2}%", place * 100.0)
}
