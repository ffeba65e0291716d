package guest

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/sim/guest/internal/machine"
)

// nvidia-smi says what it said on real cards, but for what differs from one machine to the next.
func TestSMISaysWhatRealOnesSaid(t *testing.T) {
	for name, device := range map[string]uint16{"h100": 0x2330, "h200": 0x2335} {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile("testdata/smi/" + name + ".txt")
			require.NoError(t, err)
			synctest.Test(t, func(t *testing.T) {
				m := baked(t, openDriver, func(c *machine.Config) { c.PCI[0].Device, c.PCI[0].Model = device, "" })
				for block := range strings.SplitSeq("\n"+string(text), "\n$ ") {
					command, want, ok := strings.Cut(block, "\n")
					if !ok || command == "" {
						continue
					}
					code, out := shellAs(m, "root", command)
					assert.Equal(t, neutral(strings.TrimSpace(want)), neutral(strings.TrimSpace(fmt.Sprintf("%s[exit %d]", out, code))), command)
				}
			})
		})
	}
}

// neutral leaves out what differs from one machine to the next: UUIDs, addresses, versions, times,
// temperature, power, persistence mode and free memory.
func neutral(text string) string {
	for _, r := range [][2]string{
		{`GPU-[0-9a-f-]{36}`, "GPU-"}, {`0{8}:[0-9A-F]{2}:[0-9A-F]{2}\.0`, "ADDRESS"}, {`580\.\d+\.\d+`, "DRIVER"}, {`(?m)^\w{3} \w{3} .. ..:..:.. \d{4} +$`, "DATE"},
		{`\d{4}/../.. [0-9:.]+`, "TIME"}, {`\d+C    P0 +\d+W /  \d+W`, "LOAD"}, {`(On|Off) +\|`, "MODE |"}, {`, (\d+ MiB), 0 MiB, \d+ MiB,`, ", $1, FREE,"},
		{`\d\.0, \d+, 0 %, (Enabled|Disabled)`, "NOW"}, {`Default, [0-9.]+ W, [0-9A-F.]+, [^,]+, `, "BOARD, "},
	} {
		text = regexp.MustCompile(r[0]).ReplaceAllString(text, r[1])
	}
	return text
}
