//go:build mage

package main

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/magefile/mage/mg"

	"github.com/cps-gpu/homelab/internal/platform"
)

// pinned lists the versions that homelab pins beside those of charts.
//
//go:embed pins.tsv
var pinned string

// Pins has the targets about pinned versions.
type Pins mg.Namespace

// Age lists the pinned versions that nobody has compared with their sources for three months.
func (Pins) Age() error {
	var rows [][]string // what, version, where it is written, when it was compared, with what
	for line := range strings.Lines(pinned) {
		if !strings.HasPrefix(line, "#") {
			rows = append(rows, strings.Split(strings.TrimSpace(line), "\t"))
		}
	}
	pins := platform.Pins()
	for _, name := range slices.Sorted(maps.Keys(pins)) {
		rows = append(rows, []string{"chart " + name, pins[name].Version, "the part's file", pins[name].Compared, pins[name].Source})
	}
	const day = 24 * time.Hour
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	old := 0
	for _, f := range rows {
		looked, err := time.Parse(time.DateOnly, f[3])
		if err != nil {
			return err
		}
		if age := time.Since(looked); age > 92*day {
			old++
			fmt.Fprintf(w, "%s\t%s\t%d days\t%s\t%s\n", f[0], f[1], age/day, f[2], f[4])
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Printf("%d of %d pins were not looked at for three months.\n", old, len(rows))
	return nil
}
