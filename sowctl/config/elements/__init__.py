"""The declarative table of elements, one module per section; :mod:`sowctl.config.elements.instance` joins them."""
