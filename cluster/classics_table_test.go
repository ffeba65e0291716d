package cluster_test

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/cps-gpu/homelab/cluster/doctor"
)

// classic is a failure that cost people days, and how a person meets it here. What stands between
// backquotes is in one of the tests; … stands for names.
type classic struct {
	id      string
	happens string   // what shows
	says    []string // what is read here: what is wrong, and what to do
	doctor  string   // what cluster:doctor calls it; or why it does not, after "no: "
	tests   []string // FILE: TEST, or a file of messages that a test compares
}

// Where the lives of such failures are.
const (
	classicLives = "cluster/classics_test.go: TestDoctorKnowsTheClassics"
	brokenFiles  = "cluster/clusterfile/load_test.go: TestBroken"
	brokenDir    = "cluster/clusterfile/testdata/broken/"
)

func classics() []classic {
	return []classic{
		{"K1", "a node runs another version than the file says",
			[]string{"`version: v1.36.5+k3s1 → v1.36.6+k3s1 (needs a restart)`", "`K3s is v1.36.5+k3s1, and the file says v1.36.6+k3s1`: `homelab cluster:up upgrades node by node`"},
			"k3s-version", []string{"cluster/classics_test.go: TestAnotherVersionThanTheFile"}},
		{"K2", "the API dies with the first server",
			[]string{"it does not: all join through the VIP, which moves, and the dead server alone is named: `(VM … does not run`; without a VIP the file is refused: `write k3s: {vip: ...} with a free address of the nodes' network`"},
			"vm-stopped", []string{classicLives, "cluster/vip_moves_test.go: TestAgentsJoinWhileTheVIPMoves", brokenFiles, brokenDir + "vip-missing.txt"}},
		{"K3", "`Node password rejected, duplicate hostname`",
			[]string{"`the cluster knows another machine of this name`: `delete its Node`"},
			"k3s-down", []string{classicLives, "k3s/cluster_test.go: TestNameThatIsTaken"}},
		{"K4", "`etcd cluster join failed: duplicate node name found`",
			[]string{"`etcd still has a member of this name`: `delete the Node of the old server, which removes its member`"},
			"k3s-down", []string{classicLives, "k3s/cluster_test.go: TestServersComeAndGo"}},
		{"K5", "`bootstrap data already found and encrypted with different token`",
			[]string{"`this machine holds the data of a cluster with another token`: `join with the token that is in …`"},
			"k3s-down", []string{classicLives, "sim/guest/k3s_real_test.go: TestK3sWithAnotherToken"}},
		{"K6", "all nodes are ready, and one is missing",
			[]string{"`did not register with the cluster, although K3s was restarted`: `recreates the machine`"},
			"node-missing", []string{"cluster/classics_test.go: TestNodeThatNeverCame"}},
		{"K7", "an agent got the unit of a server",
			[]string{"`it should be agent and has the units of server and agent`: `disable the wrong unit on it, or recreate it`"},
			"k3s-role", []string{classicLives, "k3s/start_test.go: TestRoleConfusion"}},
		{"N1", "`is not supported by open nvidia.ko`, and the like for branches",
			[]string{"`the chip does not work with the open kernel modules: choose the proprietary series`; a pin that does not fit is refused before ([drivers.md](../../docs/drivers.md))"},
			"driver-not-loaded", []string{classicLives, "nvidia/kernellog_test.go: TestExplainLog", "nvidia/decisions_test.go: TestDecisions"}},
		{"N2", "`Failed to initialize NVML: Driver/library version mismatch`",
			[]string{"`a driver was installed over the one that is loaded: no program can use a GPU until the machine restarts`: `homelab node:cycle`"},
			"driver-mismatch", []string{classicLives, "nvidia/observe_test.go: TestDiffSaysWhatToDo"}},
		{"N3", "`no runtime for \"nvidia\" is configured`",
			[]string{"`the toolkit was installed after K3s had started, and K3s detects it only at start`, `the template overrides what K3s detects: remove the file and restart K3s`"},
			"toolkit", []string{classicLives, "nvidia/observe_test.go: TestDiffSaysWhatToDo"}},
		{"N4", "`Failed to initialize NVML: Unknown Error` in pods, after systemd has reloaded its units",
			[]string{"`a container loses its GPU when systemd reloads its units`: `the container runtime must inject devices by CDI`"},
			"no: only a container that runs while units are reloaded sees it: `gpu:verify -level=full`", []string{"cluster/verify_checks_test.go: TestVerifyFindsLostGPUs"}},
		{"N5", "a node offers no GPUs, since nothing tolerates its taint",
			[]string{"`it offers 0 of 1 nvidia.com/gpu, and has a taint that the file does not name`: `write taints:`; taints of the file are tolerated by all that is deployed"},
			"gpus-not-offered", []string{classicLives, "cluster/operator_test.go: TestOperatorToleratesTaints", "kube/addon/plugin_test.go: TestDevicePlugin"}},
		{"N6", "sharing that limits nothing, or lets nobody in",
			[]string{"`replicas is 1, which shares nothing; write 2 or more, or strategy: none`, `nothing limits the GPU memory of profile`, `where GPUs are shared, a container gets one share: ask for 1`, `all fitting GPUs are taken: wait`"},
			"pod-not-starting", []string{classicLives, "cluster/sharing_test.go: TestSharingFromOneLine", brokenFiles, brokenDir + "sharing-one-replica.txt", brokenDir + "platform-hub-gpu-memory.txt"}},
		{"N7", "the operator's driver: ImagePullBackOff",
			[]string{"`NVIDIA has no driver container for the kernel of`: `remove driver.usePrecompiled from nvidia.values, so that the container builds the modules, or write mode: prebuilt`"},
			"image", []string{"cluster/classics_test.go: TestDoctorKnowsTheOperatorsDriver", "nvidia/offers_test.go: TestOffersDecide"}},
		{"N8", "a test of CUDA that passes without a GPU",
			[]string{"each GPU of each node must compute: `NVIDIA's kernel module is not loaded`, `not there after 5m: GPUs: 0 → 2 allocatable`, `driver, container toolkit and device plugin must all be in place`"},
			"driver-not-loaded", []string{"cluster/verify_test.go: TestVerifyOfABrokenDriver", classicLives, "nvidia/check/verify_test.go: TestParseVerifyRefuses"}},
		{"N9", "the operator's toolkit looks for the containerd of another Kubernetes",
			[]string{"`it must find K3s' containerd: homelab cluster:up puts toolkit.env back`; in the file: `toolkit.env cannot be set: it says where K3s keeps its containerd`"},
			"pod-crashing", []string{"cluster/classics_test.go: TestOperatorWithoutTheSocketOfK3s", "kube/addon/gpuoperator_test.go: TestToolkitOfTheOperatorFindsK3s", brokenFiles, brokenDir + "operator-values.txt"}},
		{"N10", "`devicePlugin.migStrategy`, a `nodeSelector` at the top: the chart accepts them, and they do nothing",
			[]string{"`the operator's chart has no key migStrategy under devicePlugin, and would ignore it; remove it, and write sharing: under nvidia`"},
			"no: the file is refused before", []string{"kube/addon/gpuoperator_test.go: TestInertValuesAreSeen", brokenFiles, brokenDir + "operator-values.txt"}},
		{"PX8", "`Unable to change power state from D3cold to D0`; a MIG mode that stays pending",
			[]string{"`a passed-through card does not wake up, since a restart from inside does not reset it`: `homelab node:cycle`; `are not divided as in the file`"},
			"card-asleep", []string{"cluster/classics_test.go: TestCardThatDoesNotWake", "cluster/nodeverbs_test.go: TestCycle", "cluster/mig_test.go: TestMIGModeThatSticks"}},
	}
}

var quoted = regexp.MustCompile("`([^`]+)`")

// The table in testdata/classics.md is this list: no failure is missing, and each has a test in which
// its symptom and its messages are.
func TestEveryClassicFailureHasItsTest(t *testing.T) {
	rows := []string{"| | what happens | what homelab says | `cluster:doctor` calls it |", "|---|---|---|---|"}
	var ids []string
	for _, c := range classics() {
		ids = append(ids, c.id)
		text := c.read(t)
		for _, m := range quoted.FindAllStringSubmatch(c.happens+strings.Join(c.says, ""), -1) {
			for part := range strings.SplitSeq(m[1], "…") {
				assert.Contains(t, strings.ReplaceAll(text, `\"`, `"`), strings.TrimSpace(part), "%s: no test of it has this text", c.id)
			}
		}
		named := c.doctor
		if !strings.HasPrefix(c.doctor, "no: ") {
			named = "`" + c.doctor + "`"
			assert.True(t, slices.ContainsFunc(doctor.Failures(), func(f doctor.Failure) bool { return f.Name == c.doctor }), "%s: there is no finding %s", c.id, c.doctor)
			assert.Contains(t, text, `"`+c.doctor+` of `, "%s: no test of it finds %s", c.id, c.doctor)
		}
		rows = append(rows, fmt.Sprintf("| %s | %s | %s | %s |", c.id, c.happens, strings.Join(c.says, "; "), named))
	}
	assert.Equal(t, []string{"K1", "K2", "K3", "K4", "K5", "K6", "K7", "N1", "N2", "N3", "N4", "N5", "N6", "N7", "N8", "N9", "N10", "PX8"}, ids)
	docBlock(t, "testdata/classics.md", "classics", strings.Join(rows, "\n")+"\n")
}

// read returns the text of the tests' files.
func (c classic) read(t *testing.T) (text string) {
	t.Helper()
	for _, where := range c.tests {
		file, name, isTest := strings.Cut(where, ": ")
		b, err := os.ReadFile("../" + file)
		require.NoError(t, err, c.id)
		text += string(b)
		if isTest {
			assert.Contains(t, string(b), "func "+name+"(t ", "%s: %s is not in %s", c.id, name, file)
		}
	}
	if slices.Contains(c.tests, classicLives) {
		assert.Contains(t, text, `"`+c.id+", ", "%s has no life", c.id)
	}
	return text
}
