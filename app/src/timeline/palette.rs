//! The colours of the chart: roles to values, read from the page's tokens.

use std::fmt;

use simulator::wire::timeline::Category;

use super::view_model::scene::Ink;

/// An opaque colour.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rgb(pub u8, pub u8, pub u8);

impl Rgb {
    /// Moved towards another colour by hundredths.
    #[must_use]
    pub fn towards(self, other: Self, hundredths: u8) -> Self {
        let mix = |from: u8, to: u8| {
            let share = u32::from(hundredths.min(100));
            let sum = u32::from(from) * (100 - share) + u32::from(to) * share;
            u8::try_from((sum + 50) / 100).unwrap_or(u8::MAX)
        };
        Self(mix(self.0, other.0), mix(self.1, other.1), mix(self.2, other.2))
    }

    /// Reads `#rrggbb`.
    pub fn from_hex(text: &str) -> Option<Self> {
        let digits = text.trim().strip_prefix('#').filter(|digits| digits.len() == 6)?;
        let value = u32::from_str_radix(digits, 16).ok()?;
        let [_, red, green, blue] = value.to_be_bytes();
        Some(Self(red, green, blue))
    }
}

impl fmt::Display for Rgb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "#{:02x}{:02x}{:02x}", self.0, self.1, self.2)
    }
}

/// Tokens that are not categories, in the order of `Palette::others`.
const OTHERS: [&str; 11] = [
    "--surface",
    "--chart-text",
    "--chart-grid",
    "--chart-axis",
    "--chart-hatch",
    "--chart-capacity",
    "--chart-band",
    "--fits",
    "--chart-cursor",
    "--chart-outline",
    "--chart-phase",
];
const SELECTION: &str = "--chart-selection";

/// One theme.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Palette {
    categories: [Rgb; 9],
    others: [Rgb; OTHERS.len()],
    selection: Rgb,
}

impl Palette {
    /// Reads every token; one that is missing is black.
    pub fn read(mut token: impl FnMut(&str) -> Option<Rgb>) -> Self {
        let mut palette = Self::default();
        for category in Category::ALL {
            let name = format!("--category-{}", category.word());
            palette.categories[category as usize] = token(&name).unwrap_or_default();
        }
        for (slot, name) in palette.others.iter_mut().zip(OTHERS) {
            *slot = token(name).unwrap_or_default();
        }
        palette.selection = token(SELECTION).unwrap_or_default();
        palette
    }

    /// The colour of a role.
    pub fn colour(&self, ink: Ink) -> Rgb {
        let category = |category: Category| self.categories[category as usize];
        match ink {
            Ink::Band(band) => category(band.category()).towards(self.others[0], band.tint()),
            Ink::OutsidePool => category(Category::OutsidePool),
            Ink::Slack => category(Category::Slack),
            Ink::Paper => self.others[0],
            Ink::Text => self.others[1],
            Ink::Grid => self.others[2],
            Ink::Axis => self.others[3],
            Ink::Hatch => self.others[4],
            Ink::Capacity => self.others[5],
            Ink::ErrorBand => self.others[6],
            Ink::Free => self.others[7],
            Ink::Cursor => self.others[8],
            Ink::Outline => self.others[9],
            Ink::Phase => self.others[10],
            Ink::Selection => self.selection,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads the light theme off the page's own file.
    fn light() -> Palette {
        let css = include_str!("../../../public/tokens.css");
        let (light, _) = css.split_once("data-theme").expect("a dark theme follows");
        Palette::read(|name| {
            let (_, rest) = light.split_once(&format!("{name}:"))?;
            Rgb::from_hex(rest.split(';').next()?)
        })
    }

    #[test]
    fn every_token_exists() {
        let palette = light();
        let black = Rgb::default();
        for colour in palette.categories.into_iter().chain(palette.others) {
            assert_ne!(colour, black);
        }
        assert_ne!(palette.selection, black);
    }

    #[test]
    fn shades_lie_between_colour_and_paper() {
        assert_eq!(Rgb(0, 100, 200).towards(Rgb(100, 100, 100), 50), Rgb(50, 100, 150));
        assert_eq!(Rgb::from_hex("#0072b2"), Some(Rgb(0, 0x72, 0xb2)));
        assert_eq!(Rgb::from_hex("red"), None);
        assert_eq!(Rgb(0, 0x72, 0xb2).to_string(), "#0072b2");
    }
}
