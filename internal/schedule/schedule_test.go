package schedule_test

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/cps-gpu/homelab/internal/schedule"
)

func TestCheck(t *testing.T) {
	for _, s := range []string{
		"0 */12 * * *", "* * * * *", "0,30 1-5 1 */2 0-6", "@daily", "@every 6h", "0 3 * * SUN", "0 3 * * mon-FRI", "0 3 * jan ?", "CRON_TZ=Europe/Berlin 0 3 * * *",
	} {
		assert.NoError(t, schedule.Check(s), s)
	}
	for _, s := range []string{
		"", "* * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "*/0 * * * *", "a b c d e", "@often", "0 3 * * 5-3", "0 3 * * 7", "@every soon", "TZ=", "TZ=0", "CRON_TZ=x",
	} {
		assert.Error(t, schedule.Check(s), s)
	}
}

func FuzzCheck(f *testing.F) {
	for _, s := range []string{"0 3 * * *", "TZ=UTC 0 3 * * *", "TZ=", "@every 1h", "1-2/3,4 * * * *"} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, s string) { _ = schedule.Check(s) })
}
