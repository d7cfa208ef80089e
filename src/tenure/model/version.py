"""The version of this package. Here, since looking it up in the metadata of installed packages
takes longer than everything else that a command needs."""

VERSION = "0.1.0"
