package plane

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestTaints(t *testing.T) {
	taints, err := parseTaints([]string{"nvidia.com/gpu=present:NoSchedule", "a:NoExecute", "b=c:d:PreferNoSchedule"})
	require.NoError(t, err)
	assert.Equal(t, []corev1.Taint{
		{Key: "nvidia.com/gpu", Value: "present", Effect: "NoSchedule"},
		{Key: "a", Effect: "NoExecute"},
		{Key: "b", Value: "c:d", Effect: "PreferNoSchedule"},
	}, taints)
	_, err = parseTaints([]string{"a=b"})
	assert.ErrorContains(t, err, "has no effect")
}

func FuzzTaints(f *testing.F) {
	f.Add("nvidia.com/gpu=present:NoSchedule")
	f.Fuzz(func(t *testing.T, text string) {
		taints, err := parseTaints([]string{text})
		if err == nil {
			assert.Len(t, taints, 1)
		}
	})
}

func TestLastLines(t *testing.T) {
	assert.Equal(t, "b\nc\n", lastLines("a\nb\nc\n", "2"))
	assert.Equal(t, "b\nc", lastLines("a\nb\nc", "2"))
	assert.Equal(t, "a\n", lastLines("a\n", "7"))
	assert.Equal(t, "a\nb\n", lastLines("a\nb\n", ""))
}

func TestLogsOfOldPodsGo(t *testing.T) {
	logs := newPodLogs()
	pod := &corev1.Pod{}
	for i := range maxLogPods + 1 {
		pod.UID = uid(i)
		logs.add(pod, "main", "hello")
	}
	assert.Empty(t, logs.of(uid(0), "main"))
	assert.Equal(t, "hello", logs.of(uid(maxLogPods), "main"))
}

func uid(i int) types.UID { return types.UID(strconv.Itoa(i)) }
