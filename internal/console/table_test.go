package console

import (
	"strings"
	"testing"

	"github.com/mattn/go-runewidth"
	"github.com/stretchr/testify/assert"
)

func verified() Table {
	t := Table{Header: []string{"NODE", "GPU", "MODEL", "PROBLEM", "DRIVER", "UUID", "RESULT"}}
	t.Add("wk-gpu1", "0", "NVIDIA A100-SXM4-80GB", "", "580.173.02", "GPU-6f0c7a3e-1b52-4c8e-9a41-30d2b7f5c001", "passed")
	t.Add("wk-gpu1", "1", "NVIDIA A100-SXM4-80GB", "", "580.173.02", "GPU-6f0c7a3e-1b52-4c8e-9a41-30d2b7f5c002", "FAILED: the sum of 1048576 products is wrong:\nuncorrectable ECC error encountered")
	t.Add("機械-2", "0", "NVIDIA A100-SXM4-80GB", "", "580.173.02", "GPU-6f0c7a3e-1b52-4c8e-9a41-30d2b7f5c003", "passed")
	return t
}

func TestTable(t *testing.T) {
	for name, width := range map[string]int{"table_pipe.txt": 0, "table_80.txt": 80, "table_120.txt": 120} {
		c := capture(width)
		c.Table(verified())
		golden(t, name, c.data.String())
		assert.NotContains(t, c.data.String(), "PROBLEM", "a column without a value is left out")
		assert.Empty(t, c.talk.String())
		for line := range strings.Lines(c.data.String()) {
			if width > 0 {
				assert.LessOrEqual(t, runewidth.StringWidth(strings.TrimRight(line, "\n")), width)
			}
		}
	}
}

func TestTableOddities(t *testing.T) {
	c := capture(40, "geheim-123")
	empty := Table{Header: []string{"A", "B"}}
	c.Table(empty)
	assert.Equal(t, "A  B\n", c.data.String())

	c = capture(40, "geheim-123")
	short := Table{Header: []string{"A", "B", "C"}}
	short.Add("with geheim-123 in it")
	short.Add("x", "", "", "one too many")
	c.Table(short)
	assert.Equal(t, "A\nwith [secret] in it\nx\n", c.data.String())
}

func TestProgress(t *testing.T) {
	c := capture(0, "geheim-123")
	c.Progress("building the lab,\n geheim-123")
	c.Progress("")
	assert.Equal(t, "building the lab, [secret]\n", c.talk.String())

	c = capture(0)
	c.JSON = true
	c.Progress("building")
	assert.Empty(t, c.talk.String())

	c = capture(0)
	term := newTerminal(20, 5)
	c.Console.Talk, c.Live = term, true
	c.Console.talk.size = func() (int, int) { return 20, 5 }
	c.Progress("building the lab: a long story")
	assert.Equal(t, "building the lab: …\n", term.screen())
	c.Progress("")
	assert.Equal(t, "\n", term.screen())
	assert.Empty(t, term.faults)
	c.Console.talk.size = func() (int, int) { return 0, 0 } // unknown
	c.Progress("building")
	assert.Equal(t, "building\n", term.screen())
}
