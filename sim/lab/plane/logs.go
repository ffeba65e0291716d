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

// ended keeps what a container has written, also for those who ask what it was before its next start.
func (l *podLogs) ended(pod *corev1.Pod, container string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text, known := l.text[logKey{pod.UID, container}]; known {
		l.text[logKey{pod.UID, container + previousLog}] = text
	}
}

// begins empties the log of a container that starts.
func (l *podLogs) begins(pod *corev1.Pod, container string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if key := (logKey{pod.UID, container}); l.text[key] != "" {
		l.text[key] = ""
	}
}

// previousLog is added to a container's name for what it wrote before its last restart.
const previousLog = " before"

func (l *podLogs) of(pod types.UID, container string) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text[logKey{pod, container}]
}
