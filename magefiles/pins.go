//go:build mage

package main

import (
	_ "embed"
	"fmt"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/magefile/mage/mg"
)

// pinned lists the versions that homelab pins.
//
//go:embed pins.tsv
var pinned string

// Pins has the targets about pinned versions.
type Pins mg.Namespace

// Age lists the pinned versions that nobody has compared with their sources for three months.
func (Pins) Age() error {
	const day = 24 * time.Hour
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	old, all := 0, 0
	for line := range strings.Lines(pinned) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		f := strings.Split(strings.TrimSpace(line), "\t")
		looked, err := time.Parse(time.DateOnly, f[3])
		if err != nil {
			return err
		}
		all++
		if age := time.Since(looked); age > 92*day {
			old++
			fmt.Fprintf(w, "%s\t%s\t%d days\t%s\t%s\n", f[0], f[1], age/day, f[2], f[4])
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	fmt.Printf("%d of %d pins were not looked at for three months.\n", old, all)
	return nil
}
