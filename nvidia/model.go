package nvidia

import (
	"regexp"
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
// database's, has to be exactly the model. A model is whole words of a name, so that L40 does not mean an L40S;
// blanks may be missing, and a size of memory may stand anywhere: rtx3090, V100 32GB. It may stand for several
// cards: A100 for both sizes of memory. The empty model is every card with a driver: not the old one
// beside it that shows the host's console.
func IsModel(model string, id PCIID, name string) bool {
	wish := nameWords(model)
	if len(wish) == 0 {
		return strings.TrimSpace(model) == "" && UnsupportedReason(id) == ""
	}
	if m, known := lookup(id); known && m.Name != "" {
		return anyNameContains(wish, m.names) || anyNameContains(wish, namesOf(name))
	}
	_, product, _ := strings.Cut(name, "[")
	return slices.Equal(wish, nameWords(name)) || slices.Equal(wish, nameWords(product))
}

// GPUsOfModel returns the cards of the table that are of a model.
func GPUsOfModel(name string) (all []GPU) {
	for _, m := range models() {
		if IsModel(name, m.ID, "") {
			all = append(all, m.GPU)
		}
	}
	return all
}

// nameWords are the words of a name in lower case, without NVIDIA's own.
func nameWords(name string) []string {
	words := strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.DeleteFunc(words, func(w string) bool { return w == "nvidia" })
}

// either is a word of a name of the PCI database and what may stand for it: 6000/8000, Mobile / Max-Q.
var either = regexp.MustCompile(`([^ /\[]+) ?/ ?([^ /\]]+)`)

// alternatives are a name of the PCI database and the names in it: cards of one id may have several.
func alternatives(name string) []string {
	const most = 3 // the table's own have two
	at := either.FindStringSubmatchIndex(name)
	if at == nil || strings.Count(name, "/") > most {
		return []string{name}
	}
	out := []string{name}
	for _, group := range []int{2, 4} {
		out = append(out, alternatives(name[:at[0]]+name[at[group]:at[group+1]]+name[at[1]:])...)
	}
	return out
}

// namesOf are the words of a name's alternatives.
func namesOf(name string) (all [][]string) {
	for _, n := range alternatives(name) {
		all = append(all, nameWords(n))
	}
	return all
}

// anyNameContains reports whether one of the names has the wish in it.
func anyNameContains(wish []string, names [][]string) bool {
	return slices.ContainsFunc(names, func(name []string) bool { return nameContains(wish, name) })
}

// memoryWords takes the sizes of memory out of the words of a name, which have them at any place.
func memoryWords(words []string) (rest, sizes []string) {
	for _, w := range words {
		switch n := len(rest); {
		case w == "gb" && n > 0 && digits(rest[n-1]): // 80 GB
			sizes, rest = append(sizes, rest[n-1]), rest[:n-1]
		case digits(strings.TrimSuffix(w, "gb")) && strings.HasSuffix(w, "gb"):
			sizes = append(sizes, strings.TrimSuffix(w, "gb"))
		default:
			rest = append(rest, w)
		}
	}
	return rest, sizes
}

func digits(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !unicode.IsDigit(r) })
}

// nameContains reports whether wish is in a name, one word after the other with or without blanks, and the
// name does not go on to another card. The name has the sizes of memory of the wish, at any place.
func nameContains(wish, name []string) bool {
	if containsWords(wish, name) {
		return true
	}
	wish, sizes := memoryWords(wish)
	name, has := memoryWords(name)
	return containsWords(wish, name) && !slices.ContainsFunc(sizes, func(s string) bool { return !slices.Contains(has, s) })
}

func containsWords(wish, name []string) bool {
	for i := range name {
		for end := i + 1; end <= len(name); end++ {
			if strings.Join(name[i:end], "") == strings.Join(wish, "") && (end == len(name) || !slices.Contains(variants(), name[end])) {
				return true
			}
		}
	}
	return false
}
