package nvidia

import (
	"slices"
	"strings"
	"unicode"
)

// variants are words that make another card of a name: an RTX 3090 Ti is not an RTX 3090.
func variants() []string {
	return []string{"ti", "super", "d", "ada", "sff", "laptop", "mobile", "max", "maxq", "embedded", "oem", "a"}
}

// IsModel reports whether a card is of a model, such as A100, RTX 4090 or "A100 80GB PCIe". The
// card is known by its PCI id; for one that our table does not know, name, which is the PCI
// database's, has to be exactly the model. A model is whole words of a name, so that L40 does not mean an L40S,
// and it may stand for several cards: A100 for both sizes of memory. The empty model is every card
// with a driver: not the old one beside it that shows the host's console.
func IsModel(model string, id PCIID, name string) bool {
	wish := nameWords(model)
	if len(wish) == 0 {
		return strings.TrimSpace(model) == "" && Unsupported(id) == ""
	}
	if g, known := Lookup(id); known && g.Name != "" {
		return named(wish, nameWords(g.Name)) || named(wish, nameWords(name))
	}
	_, product, _ := strings.Cut(name, "[")
	return slices.Equal(wish, nameWords(name)) || slices.Equal(wish, nameWords(product))
}

// OfModel returns the cards of the table that are of a model.
func OfModel(model string) []GPU {
	return slices.DeleteFunc(GPUs(), func(g GPU) bool { return !IsModel(model, g.ID, "") })
}

// nameWords are the words of a name in lower case, without NVIDIA's own.
func nameWords(name string) []string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.DeleteFunc(words, func(w string) bool { return w == "nvidia" })
}

// named reports whether wish is in a name, one word after the other, and the name does not go on to
// another card.
func named(wish, name []string) bool {
	for i := 0; i+len(wish) <= len(name); i++ {
		end := i + len(wish)
		if slices.Equal(name[i:end], wish) && (end == len(name) || !slices.Contains(variants(), name[end])) {
			return true
		}
	}
	return false
}
