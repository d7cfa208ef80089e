"""Figures as numbers: where a bar begins, how long it is. Templates make SVG of them."""
