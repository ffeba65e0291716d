package nvidia

import (
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestParseTopology(t *testing.T) {
	each(t, "testdata/topo/*.txt", func(t *testing.T, text, file string) {
		top, err := ParseTopology(text)
		require.NoError(t, err)
		goldenJSON(t, file, top)
		for i, a := range top.Devices {
			for j, b := range top.Devices {
				assert.Equal(t, i == j, top.Link(a.Name, b.Name) == linkSelf)
				assert.Equal(t, top.Link(a.Name, b.Name), top.Link(b.Name, a.Name), "links have two ends")
			}
		}
	})
	text, err := os.ReadFile("testdata/topo/a100-sxm-8-nics.txt")
	require.NoError(t, err)
	top, err := ParseTopology(string(text))
	require.NoError(t, err)
	assert.Equal(t, 12, top.Link("GPU0", "GPU7").NVLinks())
	assert.Equal(t, LinkPXB, top.Link("GPU2", "mlx5_3"))
	assert.Zero(t, top.Link("GPU0", "NIC0").NVLinks())
	assert.Empty(t, top.Link("GPU0", "GPU8"))
	assert.Zero(t, Link("NVx").NVLinks())
}

func TestParseTopologyRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"No devices were found\n":       "the driver sees no GPU",
		"Failed to run topology matrix": "nvidia-smi gave no report: Failed to run topology matrix",
		"":                              "nvidia-smi printed nothing",
		"\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tNV12\t0-7\n":                  "the row of GPU1 is missing",
		"\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \tPH0-115\n":                    `the row of GPU0 has "PH0-115" where a link should be`,
		"\tGPU0\tGPU1\tCPU Affinity\nGPU0\t X \n":                             "the row of GPU0 has 1 links, and there are 2 devices",
		"\tGPU0\tGPU1\tCPU Affinity\nGPU1\tNV12\t X \t0-7\nGPU0\t X \tNV12\n": "the row of GPU1 is missing",
	} {
		_, err := ParseTopology(text)
		require.ErrorContains(t, err, want, text)
	}
}

func FuzzParseTopology(f *testing.F) {
	f.Add("\tGPU0\tGPU1\tNIC0\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV12\tSYS\t0-7\t0\nGPU1\tNV12\t X \tSYS\t8-15\t1\nNIC0\tSYS\tSYS\t X\n\nNIC Legend:\n\n  NIC0: mlx5_0\n")
	f.Fuzz(func(t *testing.T, text string) {
		top, err := ParseTopology(text)
		if err != nil {
			require.Empty(t, top.Devices)
			return
		}
		for _, d := range top.Devices {
			require.Len(t, d.Links, len(top.Devices))
		}
		require.True(t, strings.HasPrefix(top.Devices[0].Name, "GPU"))
	})
}

// Reports of nvidia-smi -q -x of several generations.
func TestParseRealReports(t *testing.T) {
	each(t, "testdata/smi/*.xml", func(t *testing.T, text, file string) {
		s, err := ParseSMI([]byte(text))
		require.NoError(t, err)
		goldenJSON(t, file, s)
	})
}
