package console

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/mattn/go-runewidth"
)

// Table is data in rows of equal length.
type Table struct {
	Header []string
	Rows   [][]string
}

// Add appends a row.
func (t *Table) Add(cells ...string) { t.Rows = append(t.Rows, cells) }

// Table prints t with aligned columns.
func (c *Console) Table(t Table) {
	width := make([]int, len(t.Header))
	all := append([][]string{t.Header}, t.Rows...)
	for _, row := range all {
		for i, cell := range row {
			width[i] = max(width[i], runewidth.StringWidth(cell))
		}
	}
	for _, row := range all {
		var b strings.Builder
		for i, cell := range row {
			b.WriteString(runewidth.FillRight(cell, width[i]+2))
		}
		_, _ = io.WriteString(c.Data, strings.TrimRight(b.String(), " ")+"\n")
	}
}

// Objects prints each value as a JSON object on a line.
func Objects[T any](c *Console, values []T) error {
	for _, v := range values {
		b, err := json.Marshal(v)
		if err != nil {
			return err
		}
		if _, err := c.Data.Write(append(b, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// Say prints a line to the person.
func (c *Console) Say(format string, args ...any) {
	_, _ = fmt.Fprintf(c.Talk, format+"\n", args...)
}
