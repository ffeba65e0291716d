package plane

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// podLogs keeps the end of what containers wrote, for kubectl logs.
type podLogs struct {
	mu   sync.Mutex
	text map[logKey]string
	pods []types.UID // in the order of their first line; the oldest go first
}

type logKey struct {
	pod       types.UID
	container string
}

const (
	maxLog     = 256 << 10 // bytes of one container
	maxLogPods = 200
)

func newPodLogs() *podLogs { return &podLogs{text: map[logKey]string{}} }

func (l *podLogs) add(pod *corev1.Pod, container, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	key := logKey{pod.UID, container}
	all, known := l.text[key]
	all += text
	l.text[key] = all[max(0, len(all)-maxLog):]
	if known {
		return
	}
	l.pods = append(l.pods, pod.UID)
	if len(l.pods) <= maxLogPods {
		return
	}
	oldest := l.pods[0]
	l.pods = l.pods[1:]
	for key := range l.text {
		if key.pod == oldest {
			delete(l.text, key)
		}
	}
}

func (l *podLogs) of(pod types.UID, container string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text[logKey{pod, container}]
}
