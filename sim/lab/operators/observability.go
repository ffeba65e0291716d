package operators

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/cps-gpu/homelab/sim/lab/traffic"
)

// observabilityPrograms are those that are asked what was seen. They answer what homelab and people with its docs ask.
func observabilityPrograms() []program {
	return []program{
		{name: "victoria-logs", image: "victoriametrics/victoria-logs", watch: []kind{}, sync: victoriaLogs},
		{name: "prometheus", image: "prometheus/prometheus", watch: []kind{}, sync: prometheus},
		{name: "alertmanager", image: "prometheus/alertmanager", watch: []kind{}, sync: alertmanager},
	}
}

// victoriaLogs plays VictoriaLogs: it has the logs of pods on nodes on which a collector is Ready, as long as the
// nodes have them, and finds a word in them (app/vlselect/logsql/logsql.go of VictoriaLogs).
func victoriaLogs(ctx context.Context, i *instance) (time.Duration, error) {
	return 0, i.serveOnce(ctx, func() (http.Handler, error) {
		mux := http.NewServeMux()
		mux.HandleFunc("/select/logsql/query", func(w http.ResponseWriter, r *http.Request) {
			word := strings.Trim(r.FormValue("query"), `"`)
			if !regexp.MustCompile(`^\w+$`).MatchString(word) {
				http.Error(w, "the lab's VictoriaLogs finds one word only", http.StatusBadRequest)
				return
			}
			lines, err := i.loggedWith(r.Context(), word)
			if err != nil {
				http.Error(w, err.Error(), http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "application/stream+json")
			for _, l := range lines {
				_ = json.NewEncoder(w).Encode(l)
			}
		})
		return mux, nil
	})
}

// loggedWith are the lines with a word of all pods whose nodes have a collector.
func (i *instance) loggedWith(ctx context.Context, word string) (lines []map[string]string, err error) {
	collectors, err := i.Client.CoreV1().Pods(i.pod.Namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=victoria-logs-collector"})
	if err != nil {
		return nil, err
	}
	collected := map[string]bool{}
	for _, p := range collectors.Items {
		collected[p.Spec.NodeName] = collected[p.Spec.NodeName] || traffic.Ready(&p)
	}
	pods, err := i.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	for _, p := range pods.Items {
		if !collected[p.Spec.NodeName] || p.Status.StartTime == nil {
			continue
		}
		for _, c := range p.Spec.Containers {
			text, err := i.Client.CoreV1().Pods(p.Namespace).GetLogs(p.Name, &corev1.PodLogOptions{Container: c.Name}).DoRaw(ctx)
			if err != nil { // it has none yet, or its node does not answer
				continue
			}
			for line := range strings.Lines(string(text)) {
				if slices.Contains(strings.FieldsFunc(line, func(r rune) bool { return !regexp.MustCompile(`\w`).MatchString(string(r)) }), word) {
					lines = append(lines, map[string]string{"_msg": strings.TrimSuffix(line, "\n"), "_time": p.Status.StartTime.UTC().Format(time.RFC3339Nano),
						"kubernetes.pod_name": p.Name, "kubernetes.pod_namespace": p.Namespace, "kubernetes.container_name": c.Name})
				}
			}
		}
	}
	return lines, nil
}

// prometheus plays Prometheus, which knows whether it itself and the exporters of nodes answer.
func prometheus(ctx context.Context, i *instance) (time.Duration, error) {
	return 0, i.serveOnce(ctx, func() (http.Handler, error) {
		mux := http.NewServeMux()
		mux.HandleFunc("/api/v1/query", func(w http.ResponseWriter, r *http.Request) {
			if r.FormValue("query") != "up" {
				answerJSON(w, http.StatusBadRequest, map[string]any{"status": "error", "errorType": "bad_data", "error": "the lab's Prometheus knows the query up only"})
				return
			}
			pods, err := i.Client.CoreV1().Pods(i.pod.Namespace).List(r.Context(), metav1.ListOptions{LabelSelector: "app.kubernetes.io/name in (prometheus, prometheus-node-exporter)"})
			if err != nil {
				answerJSON(w, http.StatusInternalServerError, map[string]any{"status": "error", "errorType": "internal", "error": err.Error()})
				return
			}
			result := []any{}
			for _, p := range pods.Items {
				up := map[bool]string{true: "1", false: "0"}[traffic.Ready(&p)]
				result = append(result, map[string]any{"metric": map[string]string{"__name__": "up", "job": p.Labels["app.kubernetes.io/name"], "instance": p.Status.PodIP, "pod": p.Name},
					"value": []any{time.Now().Unix(), up}})
			}
			answerJSON(w, http.StatusOK, map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": result}})
		})
		return mux, nil
	})
}

func answerJSON(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

// alerts is what an Alertmanager remembers.
type alerts struct {
	*instance
	mu       sync.Mutex
	counts   map[string]int  // by series, without the prefix alertmanager_
	silenced map[string]bool // names of alerts
}

// alertmanager plays Alertmanager: it takes alerts, waits as long as its configuration says, and counts what it would
// have sent. Nothing leaves the lab.
func alertmanager(ctx context.Context, i *instance) (time.Duration, error) {
	return 0, i.serveOnce(ctx, func() (http.Handler, error) {
		a := &alerts{instance: i, counts: map[string]int{}, silenced: map[string]bool{}}
		mux := http.NewServeMux()
		mux.HandleFunc("POST /api/v2/alerts", func(w http.ResponseWriter, r *http.Request) { a.take(ctx, w, r) })
		mux.HandleFunc("POST /api/v2/silences", a.silence)
		mux.HandleFunc("GET /metrics", a.metrics)
		return mux, nil
	})
}

func (a *alerts) take(ctx context.Context, w http.ResponseWriter, r *http.Request) {
	var list []struct {
		Labels map[string]string `json:"labels"`
	}
	if err := json.NewDecoder(r.Body).Decode(&list); err != nil {
		answerJSON(w, http.StatusBadRequest, err.Error())
		return
	}
	config, err := a.configuration(r.Context())
	if err != nil {
		answerJSON(w, http.StatusInternalServerError, err.Error())
		return
	}
	wait, err := time.ParseDuration(cmp.Or(config.Route.GroupWait, "30s")) // dispatch/route.go
	if err != nil {
		answerJSON(w, http.StatusInternalServerError, err.Error())
		return
	}
	for _, one := range list {
		if len(one.Labels) == 0 {
			answerJSON(w, http.StatusBadRequest, "at least one label pair required")
			return
		}
		go func() {
			if pause(ctx, wait) {
				a.send(ctx, one.Labels)
			}
		}()
	}
}

func (a *alerts) silence(w http.ResponseWriter, r *http.Request) {
	var s struct {
		Matchers []struct{ Name, Value string } `json:"matchers"`
	}
	if err := json.NewDecoder(r.Body).Decode(&s); err != nil || len(s.Matchers) == 0 {
		answerJSON(w, http.StatusBadRequest, "at least one matcher required")
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range s.Matchers {
		if m.Name == "alertname" {
			a.silenced[m.Value] = true
		}
	}
	answerJSON(w, http.StatusOK, map[string]string{"silenceID": fmt.Sprint(len(a.silenced))})
}

func (a *alerts) metrics(w http.ResponseWriter, _ *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, by := range []string{"email", "webhook"} {
		for _, name := range []string{"notifications_total", "notification_requests_total", "notification_requests_failed_total"} {
			_, _ = fmt.Fprintf(w, "alertmanager_%s{integration=%q} %d\n", name, by, a.counts[name+" "+by])
		}
		_, _ = fmt.Fprintf(w, "alertmanager_notifications_failed_total{integration=%q,reason=\"other\"} %d\n", by, a.counts["notifications_failed_total "+by])
	}
}

// alertsConfig is what is read of Alertmanager's configuration.
type alertsConfig struct {
	Route struct {
		Receiver  string `json:"receiver"`
		GroupWait string `json:"group_wait"`
		Routes    []struct {
			Receiver string   `json:"receiver"`
			Matchers []string `json:"matchers"`
		} `json:"routes"`
	} `json:"route"`
	Receivers []struct {
		Name     string `json:"name"`
		Webhooks []struct {
			File string `json:"url_file"`
		} `json:"webhook_configs"`
		Mails []struct {
			File string `json:"auth_password_file"`
		} `json:"email_configs"`
	} `json:"receivers"`
}

// configuration is in a Secret that is named after the Alertmanager.
func (a *alerts) configuration(ctx context.Context) (c alertsConfig, err error) {
	s, err := a.Client.CoreV1().Secrets(a.pod.Namespace).Get(ctx, "alertmanager-"+a.pod.Labels["alertmanager"], metav1.GetOptions{})
	if err != nil {
		return c, err
	}
	return c, yaml.Unmarshal(s.Data["alertmanager.yaml"], &c)
}

// send counts what is sent about an alert: to the first route that matches it, or the receiver of all.
func (a *alerts) send(ctx context.Context, labels map[string]string) {
	config, err := a.configuration(ctx)
	if err != nil {
		a.Log.Warn("Alertmanager", "why", err)
		return
	}
	to := config.Route.Receiver
	for _, r := range config.Route.Routes {
		if !slices.ContainsFunc(r.Matchers, func(m string) bool { return !matches(m, labels) }) {
			to = r.Receiver
			break
		}
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.silenced[labels["alertname"]] {
		return
	}
	for _, r := range config.Receivers {
		if r.Name != to {
			continue
		}
		for _, h := range r.Webhooks {
			a.count(ctx, "webhook", h.File)
		}
		for _, m := range r.Mails {
			a.count(ctx, "email", m.File)
		}
	}
}

// count counts one message, which fails if the file with its secret is not there.
func (a *alerts) count(ctx context.Context, by, file string) {
	a.counts["notifications_total "+by]++
	a.counts["notification_requests_total "+by]++
	if file == "" {
		return
	}
	s, err := a.Client.CoreV1().Secrets(a.pod.Namespace).Get(ctx, path.Base(path.Dir(file)), metav1.GetOptions{})
	if err != nil || len(s.Data[path.Base(file)]) == 0 {
		a.counts["notification_requests_failed_total "+by]++
		a.counts["notifications_failed_total "+by]++
	}
}

// matches reports whether a matcher such as severity =~ "info|none" takes labels.
func matches(matcher string, labels map[string]string) bool {
	m := regexp.MustCompile(`^\s*(\w+)\s*(=~|!~|!=|=)\s*"?(.*?)"?\s*$`).FindStringSubmatch(matcher)
	if m == nil {
		return false
	}
	value := labels[m[1]]
	switch m[2] {
	case "=":
		return value == m[3]
	case "!=":
		return value != m[3]
	}
	pattern, err := regexp.Compile("^(?:" + m[3] + ")$")
	return err == nil && pattern.MatchString(value) == (m[2] == "=~")
}
