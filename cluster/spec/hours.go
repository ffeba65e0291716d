package spec

import (
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Hours are a part of each day, on the clock of the cluster's machines.
type Hours struct {
	From, To time.Duration // since midnight; a To before From is on the next day
	Length   time.Duration
}

var hoursText = regexp.MustCompile(`^([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)$`)

// ParseHours reads hours such as 08:00-23:00.
func ParseHours(text string) (Hours, error) {
	m := hoursText.FindStringSubmatch(text)
	if m == nil {
		return Hours{}, fmt.Errorf("%q is not a part of a day", text)
	}
	var at [4]int
	for i := range at {
		at[i], _ = strconv.Atoi(m[i+1]) // digits
	}
	clock := func(hour, minute int) time.Duration {
		return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute
	}
	h := Hours{From: clock(at[0], at[1]), To: clock(at[2], at[3])}
	if h.From == h.To {
		return Hours{}, fmt.Errorf("%q begins when it ends", text)
	}
	h.Length = h.To - h.From
	if h.Length < 0 {
		h.Length += 24 * time.Hour
	}
	return h, nil
}
