package llm

import (
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// table has well-known models: name, parameters as published, and of the config.json the fields that
// decide memory. Its first line says where they come from.
//
//go:embed models.tsv
var table string

var known = sync.OnceValue(func() []Model {
	all, _ := parseTable(table) // a test reads every line of it
	return all
})

// Known finds a well-known model by its name on Hugging Face, in upper or lower case.
func Known(name string) (Model, bool) {
	all := known()
	i := slices.IndexFunc(all, func(m Model) bool { return strings.EqualFold(m.Name, name) })
	if i < 0 {
		return Model{}, false
	}
	return all[i], true
}

// Names are the names of the well-known models.
func Names() (names []string) {
	for _, m := range known() {
		names = append(names, m.Name)
	}
	return names
}

func parseTable(text string) ([]Model, error) {
	var all []Model
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Split(strings.TrimSuffix(line, "\n"), "\t")
		if len(fields) != 3 {
			return nil, fmt.Errorf("models.tsv: %q has %d fields", line, len(fields))
		}
		m, err := ReadConfig(fields[0], strings.NewReader(fields[2]))
		if err != nil {
			return nil, err
		}
		published, err := strconv.ParseFloat(fields[1], 64)
		if has := float64(m.Parameters()) / 1e9; err != nil || has < 0.985*published || has > 1.015*published {
			return nil, fmt.Errorf("models.tsv: %s has %.2f billion parameters and its config makes %.2f", m.Name, published, has)
		}
		all = append(all, m)
	}
	return all, nil
}
