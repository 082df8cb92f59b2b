//! The page around charts and tables. Every text that comes from outside passes through `escape`.

use super::chart::Chart;
use std::fmt::Write;

const STYLE: &str = include_str!("style.css");

/// Neither scripts nor anything from elsewhere, whatever a text on the page may hold.
const POLICY: &str =
    "default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; form-action 'none'";

/// A page that is being put together.
#[derive(Debug)]
pub(crate) struct Page {
    html: String,
}

/// A figure that stands out.
#[derive(Debug, Clone)]
pub(crate) struct Tile {
    pub(crate) name: String,
    pub(crate) figure: String,
    pub(crate) note: String,
}

impl Page {
    /// An empty page.
    pub(crate) fn new(title: &str) -> Page {
        let title = escape(title);
        let head = "<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">";
        let html = format!(
            "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n{head}\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"{POLICY}\">\n\
             <meta name=\"color-scheme\" content=\"light dark\">\n\
             <link rel=\"icon\" href=\"data:,\">\n\
             <title>{title}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n"
        );
        Page { html }
    }

    /// What was measured, and where.
    pub(crate) fn heading(&mut self, title: &str, subtitle: &str) {
        let (title, subtitle) = (escape(title), escape(subtitle));
        self.write(format_args!(
            "<header>\n<p class=\"maker\">tollgate bench</p>\n<h1>{title}</h1>\n\
             <p class=\"sub\">{subtitle}</p>\n</header>\n"
        ));
    }

    /// What a reader must know before trusting a figure.
    pub(crate) fn warnings(&mut self, warnings: &[String]) {
        for warning in warnings {
            self.write(format_args!("<p class=\"warning\"><strong>Take care:</strong> {}</p>\n", escape(warning)));
        }
    }

    /// The headline figures.
    pub(crate) fn tiles(&mut self, tiles: &[Tile]) {
        self.html.push_str("<dl class=\"tiles\">\n");
        for tile in tiles {
            let [name, figure, note] = [&tile.name, &tile.figure, &tile.note].map(|text| escape(text));
            self.write(format_args!(
                "<div><dt>{name}</dt><dd class=\"figure\">{figure}</dd><dd class=\"note\">{note}</dd></div>\n"
            ));
        }
        self.html.push_str("</dl>\n");
    }

    /// A chart and the table of its figures.
    pub(crate) fn chart(&mut self, chart: &Chart, header: &[String], rows: &[Vec<String>]) {
        // Without a point there is nothing to see.
        if rows.is_empty() {
            return;
        }
        self.html.push_str("<section class=\"pair\">\n");
        self.html.push_str(&chart.to_html());
        let name = format!("Figures of the chart: {}", chart.title);
        self.scrolled_table(&name, header, rows);
        self.html.push_str("</section>\n");
    }

    /// A table under a heading of its own.
    pub(crate) fn table(&mut self, title: &str, header: &[String], rows: &[Vec<String>]) {
        self.write(format_args!("<section>\n<h2>{}</h2>\n", escape(title)));
        self.scrolled_table(title, header, rows);
        self.html.push_str("</section>\n");
    }

    /// A table of words under a heading of its own: what is long is broken, so that no column is out of sight.
    pub(crate) fn words(&mut self, title: &str, header: &[String], rows: &[Vec<String>]) {
        self.write(format_args!("<section class=\"words\">\n<h2>{}</h2>\n", escape(title)));
        self.scrolled_table(title, header, rows);
        self.html.push_str("</section>\n");
    }

    /// A sentence.
    pub(crate) fn paragraph(&mut self, text: &str) {
        self.write(format_args!("<p class=\"text\">{}</p>\n", escape(text)));
    }

    /// Names and what they are.
    pub(crate) fn facts(&mut self, title: &str, facts: &[(String, String)]) {
        self.write(format_args!("<section>\n<h2>{}</h2>\n<dl class=\"facts\">\n", escape(title)));
        for (name, value) in facts {
            let (name, value) = (escape(name), escape(value));
            // A value without a name belongs to the one above.
            let term = if name.is_empty() { String::new() } else { format!("<dt>{name}</dt>") };
            self.write(format_args!("{term}<dd>{value}</dd>\n"));
        }
        self.html.push_str("</dl>\n</section>\n");
    }

    /// Text for a shell.
    pub(crate) fn code(&mut self, title: &str, text: &str) {
        let (title, text) = (escape(title), escape(text));
        self.write(format_args!("<section>\n<h2>{title}</h2>\n<pre><code>{text}</code></pre>\n</section>\n"));
    }

    /// The whole page.
    pub(crate) fn finish(mut self) -> String {
        self.html.push_str("</main>\n</body>\n</html>\n");
        self.html
    }

    /// A keyboard can scroll what has a place in the order of focus.
    fn scrolled_table(&mut self, name: &str, header: &[String], rows: &[Vec<String>]) {
        let name = escape(name);
        self.write(format_args!(
            "<div class=\"scroll\" role=\"region\" tabindex=\"0\" aria-label=\"{name}\">\n<table>\n<thead><tr>"
        ));
        for cell in header {
            self.write(format_args!("<th scope=\"col\">{}</th>", escape(cell)));
        }
        self.html.push_str("</tr></thead>\n<tbody>\n");
        for row in rows {
            self.html.push_str("<tr>");
            for (column, cell) in row.iter().enumerate() {
                let cell = escape(cell);
                match column {
                    0 => self.write(format_args!("<th scope=\"row\">{cell}</th>")),
                    _ => self.write(format_args!("<td>{cell}</td>")),
                }
            }
            self.html.push_str("</tr>\n");
        }
        self.html.push_str("</tbody>\n</table>\n</div>\n");
    }

    fn write(&mut self, text: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = self.html.write_fmt(text);
    }
}

/// Text as text, within elements and within attributes; control characters, which no page may hold, become blanks.
pub(super) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            control if control.is_control() => escaped.push(' '),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_from_outside_is_markup() {
        let cases = [
            ("plain", "plain"),
            ("<script>alert(1)</script>", "&lt;script&gt;alert(1)&lt;/script&gt;"),
            ("\" onload='x' &amp;", "&quot; onload=&#39;x&#39; &amp;amp;"),
            ("a\0b\x1b[31mc\nd", "a b [31mc d"),
            ("µs – ü", "µs – ü"),
        ];
        for (text, expected) in cases {
            assert_eq!(escape(text), expected);
        }
    }

    #[test]
    fn every_part_of_a_page_escapes() {
        let planted = "<script>\"";
        let text = planted.to_owned();
        let mut page = Page::new(planted);
        page.heading(planted, planted);
        page.warnings(std::slice::from_ref(&text));
        page.tiles(&[Tile { name: text.clone(), figure: text.clone(), note: text.clone() }]);
        page.table(planted, std::slice::from_ref(&text), &[vec![text.clone(), text.clone()]]);
        page.facts(planted, &[(text.clone(), text.clone())]);
        page.code(planted, planted);
        page.paragraph(planted);
        let html = page.finish();
        assert!(!html.contains("<script") && html.matches("&lt;script&gt;&quot;").count() >= 15, "{html}");
    }
}
