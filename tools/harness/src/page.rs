//! A report as one self-contained page: curves, tables, claims.

use crate::chart::{self, escape};
use crate::report::{Report, columns};
use crate::row::{Row, heading};

const STYLE: &str = "\
:root { color-scheme: light dark }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 1200px; padding: 0 1em }
table { border-collapse: collapse; display: block; overflow-x: auto }
th, td { padding: .3em .7em; border-bottom: 1px solid #8886; text-align: left; white-space: nowrap }
.number { text-align: right; font-variant-numeric: tabular-nums }
svg { max-width: 820px; width: 100% }
";

/// The page of `report`: the figures first. The claims are there if they are asked for.
pub fn page(report: &Report, with_claims: bool) -> String {
    let title = escape(&format!("{}: {}", report.bench, report.title));
    let mut page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width\">\n<title>{title}</title>\n\
         <style>\n{STYLE}{}</style>\n</head>\n<body>\n<h1>{title}</h1>\n<p>{}<br>\n<code>{}</code></p>\n",
        chart::STYLE,
        escape(&report.machine.to_string()),
        escape(&report.command)
    );
    for rows in report.tables() {
        page.push_str(&format!("<h2>{}</h2>\n", escape(rows[0].table())));
        let drawing = report.axes.and_then(|axes| chart::draw(axes, rows));
        page.push_str(&drawing.unwrap_or_default());
        page.push_str(&table(rows));
    }
    for note in &report.notes {
        page.push_str(&format!("<p>{}</p>\n", escape(note)));
    }
    if with_claims && !report.claims.is_empty() {
        let claims = report.claims.iter();
        let items: String = claims
            .map(|claim| format!("<li>{}</li>\n", escape(&claim.words())))
            .collect();
        page.push_str(&format!("<h2>Targets</h2>\n<ul>\n{items}</ul>\n"));
    }
    page.push_str("</body>\n</html>\n");
    page
}

fn table(rows: &[Row]) -> String {
    let columns = columns(rows);
    let line = |tag: &str, cell: &dyn Fn(&str) -> String| {
        let cells = columns.iter().map(|&(name, is_number)| {
            let class = if is_number { " class=\"number\"" } else { "" };
            format!("<{tag}{class}>{}</{tag}>", escape(&cell(name)))
        });
        format!("<tr>{}</tr>\n", cells.collect::<String>())
    };
    let mut text = format!("<table>\n<thead>\n{}</thead>\n<tbody>\n", line("th", &heading));
    for row in rows {
        text.push_str(&line("td", &|name| row.cell(name)));
    }
    text + "</tbody>\n</table>\n"
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::example;

    #[test]
    fn a_page_is_whole_and_alone() {
        let page = page(&example(), true);
        assert!(page.starts_with("<!DOCTYPE html>") && page.ends_with("</html>\n"));
        for tag in [
            "table", "thead", "tbody", "tr", "svg", "ul", "li", "h1", "h2", "body", "style",
        ] {
            let opened = page.matches(&format!("<{tag}>")).count() + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
            assert!(opened > 0, "{tag}");
        }
        assert_eq!((page.matches("<tr>").count(), page.matches("<svg").count()), (7, 1));
        for elsewhere in ["http", "src=", "href=", "url(", "@import", "<script"] {
            assert!(!page.contains(elsewhere), "{elsewhere}");
        }
        assert!(page.contains("<td class=\"number\">12,346</td><td class=\"number\">1.50</td>"));
        assert!(page.contains("<th>engine</th><th class=\"number\">threads</th>"));
        assert!(page.contains("<li>faster, worst row: 1.25 (wanted 1): met</li>"));
        assert!(!super::page(&example(), false).contains("<h2>Targets"));
    }

    #[test]
    fn text_is_escaped() {
        assert_eq!(escape("a<b>&\"c'"), "a&lt;b&gt;&amp;&quot;c&#39;");
        let mut report = example();
        report.command = "bench <i>".to_owned();
        report.notes = vec!["<i>".to_owned()];
        report.machine.cpu = "<i>".to_owned();
        report.title = "<i>".to_owned();
        report.claims[0].name = "<i>".to_owned();
        let page = page(&report, true);
        assert!(!page.contains("<i>") && !page.contains("<b>") && !page.contains("<a>"));
        assert_eq!(page.matches("&lt;i&gt;").count(), 6);
    }
}
