package bench

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/nvidia/check"
)

// play runs a program with libraries that only know what it asks of them, and returns its last words.
func play(t *testing.T, env []string, program string, args ...string) (string, error) {
	t.Helper()
	python, err := exec.CommandContext(t.Context(), "python3", "-c", "import sys; print(sys.executable)").Output() // not one that needs PATH
	require.NoError(t, err, "install python3")
	here, err := os.Getwd()
	require.NoError(t, err)
	log := filepath.Join(t.TempDir(), "log")
	cmd := exec.CommandContext(t.Context(), strings.TrimSpace(string(python)), append([]string{program}, args...)...)
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH="+filepath.Join(here, "testdata/fake"), "TMPDIR="+t.TempDir(),
		"PATH="+filepath.Join(here, "testdata/bin")+":"+os.Getenv("PATH"), "BENCH_LOG="+log)
	cmd.Env = append(cmd.Env, env...)
	out, runErr := cmd.CombinedOutput()
	words, err := os.ReadFile(log)
	require.NoError(t, err, "%s", out)
	if runErr == nil {
		assert.Equal(t, string(words), string(out), "a program says nothing but its lines")
	}
	return string(words), runErr
}

// The programs say what Parse reads and Judge judges: right results pass, wrong ones fail on their GPU.
func TestPrograms(t *testing.T) {
	t.Parallel()
	burn := []string{"2", "1"}
	const mps = "CUDA_MPS_PIPE_DIRECTORY=/mps/nvidia.com/gpu/pipe"
	for name, tc := range map[string]struct {
		kind Kind
		env  []string
		args []string
		want map[int]string // by GPU
	}{
		"pytorch":            {PyTorch, nil, nil, map[int]string{0: "passed", 1: "passed"}},
		"pytorch, wrong":     {PyTorch, []string{"FAKE_WRONG=2"}, nil, map[int]string{0: "passed", 1: "failed: numbers were wrong"}},
		"pytorch, broken":    {PyTorch, []string{"FAKE_BROKEN=CUDA error: unspecified launch failure\nCompile with TORCH_USE_CUDA_DSA"}, nil, map[int]string{0: "passed", 1: "failed: CUDA error: unspecified launch failure"}},
		"tensorflow":         {TensorFlow, nil, nil, map[int]string{0: "passed", 1: "passed"}},
		"burn":               {Burn, nil, burn, map[int]string{0: "", 1: "warning: slowed by heat or power"}},
		"burn, wrong":        {Burn, []string{"FAKE_WRONG=1"}, burn, map[int]string{0: "", 1: "failed: numbers were wrong"}},
		"burn, broken":       {Burn, []string{"FAKE_BROKEN=CUDA error: unspecified launch failure\nCompile with TORCH_USE_CUDA_DSA"}, burn, map[int]string{0: "", 1: "failed: CUDA error"}},
		"burn, full":         {Burn, []string{"FAKE_BROKEN=CUDA out of memory. Tried to allocate 20.00 MiB."}, burn, map[int]string{0: "", 1: "failed: the GPU's memory is full: another program uses it"}},
		"pytorch, full":      {PyTorch, []string{"FAKE_BROKEN=CUDA error: out of memory\nSearch for it"}, nil, map[int]string{0: "passed", 1: "failed: the GPU's memory is full: another program uses it"}},
		"pytorch, MPS":       {PyTorch, []string{"FAKE_BROKEN=CUDA error: unspecified launch failure\nCompile", mps}, nil, map[int]string{0: "passed", 1: "failed: CUDA error: unspecified launch failure; the GPU is shared by MPS, so that it may be the fault of another pod's program"}},
		"burn, MPS":          {Burn, []string{"FAKE_BROKEN=CUDA error: unspecified launch failure", mps}, burn, map[int]string{0: "", 1: "failed: CUDA error: unspecified launch failure; the GPU is shared by MPS, so that"}},
		"full, MPS":          {PyTorch, []string{"FAKE_BROKEN=CUDA error: out of memory", mps}, nil, map[int]string{0: "passed", 1: "failed: the GPU's memory is full: another program uses it, and nvidia-smi on the node names it"}},
		"peers":              {Peers, nil, nil, map[int]string{0: "passed", 1: "passed"}},
		"sum over GPUs":      {AllReduce, nil, []string{"2", "0", "2", "127.0.0.1"}, map[int]string{check.WholeNode: "passed"}},
		"sum, second node":   {AcrossNodes, nil, []string{"2", "2", "4", "127.0.0.1"}, map[int]string{check.WholeNode: "failed: the first GPU left no result"}},
		"sum over all nodes": {AcrossNodes, nil, []string{"2", "0", "4", "127.0.0.1"}, map[int]string{check.WholeNode: "passed"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			args := tc.args
			if args == nil {
				args = []string{"2"}
			}
			words, err := play(t, tc.env, tc.kind.program(), args...)
			require.NoError(t, err, words)
			lines, err := Parse(words)
			require.NoError(t, err, words)
			for _, c := range Judge(tc.kind, "gpu1", lines, Machine{}) {
				said := regexp.MustCompile(`\d+ numbers`).ReplaceAllString(string(c.Verdict)+": "+c.Detail, "numbers")
				assert.True(t, strings.HasPrefix(said, tc.want[c.GPU]), "%d: %s", c.GPU, said)
				assert.Equal(t, slices.Contains(tc.env, mps) && strings.Contains(said, "CUDA error"), strings.Contains(said, "MPS"), said)
				delete(tc.want, c.GPU)
			}
			assert.Empty(t, tc.want, words)
		})
	}
}

// A container that lacks GPUs or a library says so, and its Job fails.
func TestProgramsSayWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		env  []string
		args []string
		want string
	}{
		"too few GPUs":  {nil, []string{"compute_pytorch.py", "3"}, "nvidia-smi sees 2 GPUs, expected 3"},
		"no PyTorch":    {[]string{"PYTHONPATH=/nowhere"}, []string{"peers.py", "2"}, "the image has no PyTorch: No module named 'torch'"},
		"no TensorFlow": {[]string{"PYTHONPATH=/nowhere"}, []string{"compute_tensorflow.py", "2"}, "the image has no TensorFlow: No module named"},
		"no nvidia-smi": {[]string{"PATH=/nowhere"}, []string{"burn.py", "2", "1"}, "No such file or directory: 'nvidia-smi'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			words, err := play(t, tc.env, tc.args[0], tc.args[1:]...)
			require.Error(t, err)
			_, err = Parse(words)
			require.ErrorContains(t, err, tc.want)
		})
	}
}

// A load is on nearly all of a card's memory, however large it is: bad memory may be anywhere.
func TestBurnUsesTheMemory(t *testing.T) {
	t.Parallel()
	program := `
import torch
import product
import report
for i, gib in enumerate((8, 24, 80, 141, 288)):
    torch.cuda.mem_get_info = lambda at=None: (gib << 30, gib << 30)
    work = product.Product(0)
    report.say(gpu=i, values={"used": 2 * work.size**2 * (len(work.results) + 3) / (gib << 30)})
report.finish()
`
	words, err := play(t, nil, "-c", program)
	require.NoError(t, err)
	lines, err := Parse(words)
	require.NoError(t, err)
	require.Len(t, lines, 5)
	for _, l := range lines {
		assert.InDelta(t, 0.85, l.Values["used"], 0.051, "card %d", *l.GPU)
	}
}

// What Kubernetes keeps of a container's words is less than sixteen cards with long lines could say.
func TestReportFits(t *testing.T) {
	t.Parallel()
	program := `
import report
for i in range(16):
    report.say(gpu=i, uuid="GPU-%036d" % i, model="NVIDIA RTX PRO 6000 Blackwell", driver="580.173.02", memory=97887,
               values={"speed": 1234.5678, "spread": 12.3456, "wrong": 0, "celsius": 71.0, "watts": 598.76, "slowed": 0})
report.finish()
for i in range(16):
    for j in range(i + 1, 16):
        report.say(gpu=i, peer=j, values={"speed": 123.4, "direct": 1, "wrong": 0})
report.finish()
`
	words, err := play(t, nil, "-c", program)
	require.NoError(t, err)
	lines, err := Parse(words)
	require.NoError(t, err)
	first := strings.Index(words, `"peer"`)
	assert.Less(t, first, 4096, "sixteen cards under load fit")
	assert.Less(t, len(words)-first, 4096+30, "of more pairs than fit, whole lines are left out")
	assert.Greater(t, len(lines), 60)
	assert.InDelta(t, 1235, lines[0].Values["speed"], 0, "four digits")
}

// Everything that an image is built from has a digest, and what is copied exists.
func TestImages(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("image/Containerfile")
	require.NoError(t, err)
	pinned := regexp.MustCompile(`^[a-z0-9.-]+/[a-z0-9/_-]+:[A-Za-z0-9._-]+@sha256:[0-9a-f]{64}$`)
	assert.Regexp(t, pinned, Image)
	from, copied := 0, 0
	for line := range strings.Lines(string(text)) {
		f := strings.Fields(line)
		switch {
		case len(f) > 1 && f[0] == "FROM":
			from++
			assert.Regexp(t, pinned, f[1])
		case len(f) > 2 && f[0] == "COPY" && !strings.HasPrefix(f[1], "--from="):
			copied++
			for _, name := range f[1 : len(f)-1] {
				assert.FileExists(t, filepath.Join("image", name))
			}
		}
		assert.NotRegexp(t, `:latest|apt-get|pip install|curl|wget`, line, "nothing of the network but the bases")
	}
	assert.Equal(t, 2, from)
	assert.Equal(t, 1, copied)
	assert.Contains(t, string(text), "FROM "+Image+" ", "the default is what the smaller one is built from")
	assert.Contains(t, string(text), "ARG SOURCE_DATE_EPOCH")
}
