package plane

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

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

// TestAPortThatIsTaken runs a component that says what a real one says then.
func TestAPortThatIsTaken(t *testing.T) {
	log := filepath.Join(t.TempDir(), "x.log")
	script := filepath.Join(t.TempDir(), "component")
	require.NoError(t, os.WriteFile(script, []byte("#!/bin/sh\necho \"$1: listen tcp 127.0.0.1:1: bind: address already in use\" >&2\nexit 1\n"), 0o700))
	p, err := spawn(t.Context(), script, "etcd", log)
	require.NoError(t, err)
	err = until(t.Context(), "etcd", func(context.Context) error { return errors.New("not there") }, p)
	var ended *exitError
	require.ErrorAs(t, err, &ended)
	assert.True(t, ended.portTaken())
	assert.ErrorContains(t, err, "etcd ended (exit status 1): etcd: listen tcp 127.0.0.1:1: bind: address already in use; its log is "+log)
}

func TestUntilSaysWhatItWaitedFor(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 120*time.Millisecond)
	defer cancel()
	err := until(ctx, "the API server", func(context.Context) error { return errors.New("connection refused") })
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, "waiting for the API server (connection refused)")
}

func TestKillTakesTheWholeGroup(t *testing.T) {
	p, err := spawn(t.Context(), "/bin/sleep", "60", filepath.Join(t.TempDir(), "x.log"))
	require.NoError(t, err)
	began := time.Now()
	p.kill()
	assert.Less(t, time.Since(began), time.Second)
	assert.Error(t, p.ended())
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
