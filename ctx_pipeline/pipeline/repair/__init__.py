"""Missing and damaged outputs: found, and made again."""
