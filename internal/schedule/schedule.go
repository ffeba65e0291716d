// Package schedule reads cron expressions as K3s and Velero do: both use the standard
// parser of robfig/cron.
package schedule

import (
	"errors"
	"strings"

	"github.com/robfig/cron/v3"
)

// Check checks a schedule: five fields, with names of days and months in any case, or a word
// such as @daily or @every 6h. Sunday is 0, not 7.
func Check(s string) error {
	if first, _, more := strings.Cut(s, " "); !more && strings.Contains(first, "TZ=") {
		return errors.New("a time zone without a schedule after it") // the parser panics there
	}
	_, err := cron.ParseStandard(s)
	return err
}
