package check

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cps-gpu/homelab/nvidia"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden file")

const twoGPUs = `cat <<'END'
0, GPU-5b1c3a52-7d3c-4b0e-9c55-1f2e3d4c5b6a, NVIDIA A100-PCIE-40GB, 580.173.02, 40960
1, GPU-0e9d8c7b-6a5f-4e3d-8c2b-1a0f9e8d7c6b, NVIDIA A100-PCIE-40GB, 580.173.02, 40960
END
`

// verify runs the real script with programs that answer as those of the image do.
func verify(t *testing.T, expected, smi, sample string) (message string, ok bool) {
	t.Helper()
	dir := t.TempDir()
	for name, body := range map[string]string{"nvidia-smi": smi, "vectorAdd": sample} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+body), 0o755))
	}
	log := filepath.Join(dir, "termination-log")
	cmd := exec.Command("sh", "-c", verifyScript, "sh", expected, log, filepath.Join(dir, "vectorAdd"))
	cmd.Env = []string{"PATH=" + dir + ":/usr/bin:/bin"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	err := cmd.Run()
	written, readErr := os.ReadFile(log)
	require.NoError(t, readErr)
	assert.Equal(t, string(written), out.String(), "log and stdout")
	return string(written), err == nil
}

func TestVerifyScript(t *testing.T) {
	message, ok := verify(t, "2", twoGPUs, "cat; echo '[Vector addition of 50000 elements]'; echo 'Test PASSED'\n")
	assert.True(t, ok)
	results, err := ParseVerify(message)
	require.NoError(t, err)
	require.Len(t, results, 2)
	assert.Equal(t, VerifyResult{
		UUID: "GPU-0e9d8c7b-6a5f-4e3d-8c2b-1a0f9e8d7c6b", Index: 1, Name: "NVIDIA A100-PCIE-40GB", Driver: "580.173.02", Memory: 40960 << 20, Passed: true,
	}, results[1])
}

// Of a divided GPU the instances compute, each by its own name; a whole one beside it as ever.
func TestVerifyScriptOnInstances(t *testing.T) {
	smi := `if [ "$1" = -L ]; then cat <<'END'
GPU 0: NVIDIA A100-PCIE-40GB (UUID: GPU-5b1c3a52-7d3c-4b0e-9c55-1f2e3d4c5b6a)
  MIG 3g.20gb     Device  0: (UUID: MIG-aaa)
  MIG 1g.5gb      Device  1: (UUID: MIG-bbb)
GPU 1: NVIDIA A100-PCIE-40GB (UUID: GPU-0e9d8c7b-6a5f-4e3d-8c2b-1a0f9e8d7c6b)
END
else ` + strings.Replace(twoGPUs, "580.173.02, 40960", "580.173.02, [Insufficient Permissions]", 1) + "fi\n"
	message, ok := verify(t, "3", smi, `case $CUDA_VISIBLE_DEVICES in MIG-bbb) exit 1 ;; esac; echo 'Test PASSED'`)
	assert.False(t, ok)
	results, err := ParseVerify(message)
	require.NoError(t, err)
	require.Len(t, results, 3)
	assert.Equal(t, VerifyResult{UUID: "MIG-aaa", Name: "NVIDIA A100-PCIE-40GB MIG 3g.20gb", Driver: "580.173.02", Passed: true}, results[0])
	assert.Equal(t, "NVIDIA A100-PCIE-40GB MIG 1g.5gb", results[1].Name)
	assert.False(t, results[1].Passed)
	assert.EqualValues(t, 40960<<20, results[2].Memory)
}

func TestVerifyScriptFindsTheBadGPU(t *testing.T) {
	message, ok := verify(t, "2", twoGPUs, `case $CUDA_VISIBLE_DEVICES in
*0e9d*) echo 'Failed to allocate device vector A (error code'; echo 'out of memory * )!' ; exit 1 ;;
esac
echo 'Test PASSED'
`)
	assert.False(t, ok)
	results, err := ParseVerify(message)
	require.NoError(t, err)
	require.Len(t, results, 2)
	assert.True(t, results[0].Passed)
	assert.False(t, results[1].Passed)
	assert.Equal(t, "Failed to allocate device vector A (error code out of memory * )!", results[1].Detail)
}

func TestVerifyScriptFailures(t *testing.T) {
	for name, tc := range map[string]struct{ expected, smi, sample, want string }{
		"too few":           {"3", twoGPUs, "echo Test PASSED", "2 GPUs, expected 3"},
		"too many":          {"1", twoGPUs, "echo Test PASSED", "2 GPUs, expected 1"},
		"none":              {"0", "echo No devices; echo were found; exit 6", "echo Test PASSED", "nvidia-smi failed with status 6: No devices were found"},
		"nothing expected":  {"0", "true", "true", "0 GPUs, expected 0"},
		"silent success":    {"2", twoGPUs, "true", ""},
		"words, but failed": {"2", twoGPUs, "echo Test PASSED; exit 1", ""},
	} {
		t.Run(name, func(t *testing.T) {
			message, ok := verify(t, tc.expected, tc.smi, tc.sample)
			assert.False(t, ok)
			results, err := ParseVerify(message)
			if tc.want != "" {
				assert.ErrorContains(t, err, tc.want)
				return
			}
			require.NoError(t, err)
			for _, r := range results {
				assert.False(t, r.Passed)
			}
		})
	}
}

// Eight failing GPUs fit into what Kubernetes keeps of a termination message.
func TestVerifyMessageFits(t *testing.T) {
	eight := "cat <<'END'\n" + strings.Repeat("0, GPU-5b1c3a52-7d3c-4b0e-9c55-1f2e3d4c5b6a, NVIDIA RTX PRO 6000 Blackwell Server Edition, 580.173.02, 97887\n", 8) + "END\n"
	message, _ := verify(t, "8", eight, "i=0; while [ $i -lt 100 ]; do echo some words of an error; i=$((i+1)); done; exit 1\n")
	assert.Less(t, len(message), 4096)
	results, err := ParseVerify(message)
	require.NoError(t, err)
	assert.Len(t, results, 8)
}

func TestVerifyObjects(t *testing.T) {
	objects := VerifyObjects("wk-gpu1", 2, VerifyOptions{RunID: "r1", Timeout: 5 * time.Minute, Taints: []corev1.Taint{{Key: "pool", Effect: corev1.TaintEffectNoSchedule}}})
	var got []byte
	for _, o := range objects {
		b, err := yaml.Marshal(o)
		require.NoError(t, err)
		got = append(append(got, "---\n"...), b...)
	}
	if *update {
		require.NoError(t, os.WriteFile("testdata/verify.yaml", got, 0o644))
	}
	want, err := os.ReadFile("testdata/verify.yaml")
	require.NoError(t, err, "run the test with -update")
	assert.Equal(t, string(want), string(got))
}

func TestVerifyName(t *testing.T) {
	assert.Equal(t, "gpu-verify-wk-gpu1-r1", VerifyName("wk-gpu1", "r1"))
	long := strings.Repeat("very-long-name.", 16) + "example"
	a, b := VerifyName(long, "r1"), VerifyName(long, "r2")
	assert.NotEqual(t, a, b)
	for _, name := range []string{a, b, VerifyName("a.b", "")} {
		assert.Empty(t, validation.IsDNS1123Label(name+"-abcde"), name)
	}
}

func TestParseVerifyRefuses(t *testing.T) {
	for in, want := range map[string]string{
		"":                                   "left no results",
		"hello":                              `"hello" is not a result`,
		"gpu|U|0|MAYBE|n|d|1|":               "is not a result",
		"gpu|U|x|PASSED|n|d|1|":              `index "x"`,
		"gpu|U|-1|PASSED|n|d|1|":             `index "-1"`,
		"gpu||0|PASSED|n|d|1|":               "is not a result",
		"error|1 GPUs, expected 2":           "1 GPUs, expected 2",
		"gpu|U|0|PASSED|n|d|1|\ngpu|U|1|PAS": "is not a result", // cut short
	} {
		_, err := ParseVerify(in)
		assert.ErrorContains(t, err, want, in)
	}
}

func FuzzParseVerify(f *testing.F) {
	f.Add("gpu|GPU-1|0|PASSED|NVIDIA A100|580.1|40960|\nerror|x\n")
	f.Add("gpu|GPU-1|0|FAILED|a|b|c|d|e")
	f.Fuzz(func(t *testing.T, message string) {
		results, err := ParseVerify(message)
		if err == nil {
			assert.NotEmpty(t, results)
		}
		for _, r := range results {
			assert.NotEmpty(t, r.UUID)
			assert.GreaterOrEqual(t, r.Memory, int64(0))
		}
	})
}

// What is not a result hides none of those after it, and each column is looked at.
func TestParseVerifyGoesOn(t *testing.T) {
	results, err := ParseVerify("error|2 GPUs, expected 3\nhello\ngpu|U|0|PASSED|n|d|1|\nerror|more\ngpu|V|1|FAILED|n|d|1|it|broke\n")
	require.EqualError(t, err, "GPU verification: 2 GPUs, expected 3\nGPU verification: \"hello\" is not a result\nGPU verification: more")
	require.Equal(t, []VerifyResult{
		{UUID: "U", Name: "n", Driver: "d", Memory: 1 << 20, Passed: true},
		{UUID: "V", Index: 1, Name: "n", Driver: "d", Memory: 1 << 20, Detail: "it|broke"},
	}, results)
	for _, line := range []string{"cpu|U|0|PASSED|n|d|1|", "gpu||0|FAILED|n|d|1|", "gpu|U|0|PASSED|n|d|1", "gpu|U|0||n|d|1|", "gpu|U|-1|FAILED|n|d|1|"} {
		results, err = ParseVerify(line)
		require.ErrorContains(t, err, "is not a result", line)
		require.Empty(t, results)
	}
}

// A name that just fits is kept; a longer one has a digest, and no more than 50 bytes.
func TestVerifyNameIsAsLongAsItMayBe(t *testing.T) {
	for n := range 100 {
		node := strings.Repeat("n", n+1)
		name, plain := VerifyName(node, ""), "gpu-verify-"+node
		require.LessOrEqual(t, len(name), 50)
		require.Equal(t, len(plain) <= 50, name == plain, plain)
	}
}

func TestVerifyTakesTenMinutes(t *testing.T) {
	job := VerifyObjects("n", 1, VerifyOptions{})[1].(*batchv1.Job)
	require.EqualValues(t, 600, *job.Spec.ActiveDeadlineSeconds)
	require.Equal(t, VerifyImage, job.Spec.Template.Spec.Containers[0].Image)
	require.Equal(t, nvidia.PluginName, job.Namespace)
}

// Every taint but our own, which is tolerated anyway, has its toleration.
func TestTolerationsOfEachTaint(t *testing.T) {
	gpus := corev1.Taint{Key: nvidia.TaintKey, Value: nvidia.TaintValue, Effect: corev1.TaintEffectNoSchedule}
	a := corev1.Taint{Key: "pool", Value: "a100", Effect: corev1.TaintEffectNoExecute}
	b := corev1.Taint{Key: nvidia.TaintKey, Effect: corev1.TaintEffectNoExecute}
	c := corev1.Taint{Key: "other", Effect: corev1.TaintEffectNoSchedule}
	ours := corev1.Toleration{Key: nvidia.TaintKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule}
	assert.Equal(t, []corev1.Toleration{ours}, Tolerations(gpus))
	assert.Equal(t, []corev1.Toleration{
		ours,
		{Key: "pool", Operator: corev1.TolerationOpEqual, Value: "a100", Effect: corev1.TaintEffectNoExecute},
		{Key: nvidia.TaintKey, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoExecute},
		{Key: "other", Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule},
	}, Tolerations(a, gpus, b, c))
}
