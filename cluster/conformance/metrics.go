package conformance

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/cps-gpu/homelab/kube"
)

// Metrics of NVIDIA's exporter (NVIDIA/dcgm-exporter, etc/default-counters.csv): those that the
// requirement wants, and those that it wants where the card has them.
const (
	utilization = "DCGM_FI_DEV_GPU_UTIL"
	memoryUsed  = "DCGM_FI_DEV_FB_USED"
	temperature = "DCGM_FI_DEV_GPU_TEMP"
	power       = "DCGM_FI_DEV_POWER_USAGE"
)

// scrapeTime is how long an exporter may take to answer.
const scrapeTime = 10 * time.Second

// acceleratorMetrics reads the metrics of NVIDIA's exporter, as Prometheus does. A Service leads to one of its pods.
func (c *cluster) acceleratorMetrics(ctx context.Context) (Finding, error) {
	if len(c.Spec.GPUNodes()) == 0 {
		return noGPUs(), nil
	}
	services, err := kube.ListAs[corev1.Service](ctx, c.kube, "v1", "Service", "", "")
	if err != nil {
		return Finding{}, err
	}
	f := Finding{Result: Failed, Evidence: []string{"there is no Service of NVIDIA's dcgm-exporter"}, Do: "monitoring: installs it (docs/platform.md)"}
	for _, s := range services {
		if !strings.Contains(s.Name, "dcgm-exporter") || len(s.Spec.Ports) == 0 {
			continue
		}
		found, err := c.scrape(ctx, s)
		if err != nil {
			f = Finding{Result: NotShown, Evidence: []string{err.Error()}, Do: "see its pods with kubectl -n " + s.Namespace + " get pods"}
			continue
		}
		line := fmt.Sprintf("Service %s/%s serves ", s.Namespace, s.Name)
		if found[utilization] == 0 || found[memoryUsed] == 0 {
			return Finding{Result: Failed, Evidence: []string{line + "no " + utilization + " or no " + memoryUsed}, Do: "see the log of its pods"}, nil
		}
		for _, name := range []string{utilization, memoryUsed, temperature, power} {
			if n := found[name]; n > 0 {
				line += fmt.Sprintf("%s of %d, ", name, n)
			}
		}
		return Finding{Result: Passed, Evidence: []string{strings.TrimSuffix(line, ", ")}}, nil
	}
	return f, nil
}

// scrape counts the series of each metric that an exporter serves.
func (c *cluster) scrape(ctx context.Context, s corev1.Service) (_ map[string]int, err error) {
	ctx, cancel := context.WithTimeout(ctx, scrapeTime)
	defer cancel()
	port := s.Spec.Ports[0]
	name := port.Name
	if name == "" {
		name = fmt.Sprint(port.Port)
	}
	answer, err := c.kube.AskService(ctx, kube.ServiceRequest{Namespace: s.Namespace, Service: s.Name, Port: name, Path: "/metrics"})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("service %s/%s answered %s", s.Namespace, s.Name, answer.Status)
	}
	found := map[string]int{}
	lines := bufio.NewScanner(io.LimitReader(answer.Body, 16<<20))
	for lines.Scan() {
		if metric, _, ok := strings.Cut(lines.Text(), "{"); ok && !strings.HasPrefix(metric, "#") {
			found[metric]++
		}
	}
	return found, lines.Err()
}

const promGroup = "monitoring.coreos.com"

// serviceMetrics wants a Prometheus that works, and names what it is told to collect.
func (c *cluster) serviceMetrics(ctx context.Context) (Finding, error) {
	all, err := c.list(ctx, promGroup, "Prometheus")
	if err != nil {
		return Finding{}, err
	}
	f := Finding{Result: Failed, Do: "monitoring: installs Prometheus (docs/platform.md)"}
	for i := range all {
		if holds(&all[i], "Available") {
			f.Result, f.Do = Passed, ""
			f.Evidence = append(f.Evidence, "Prometheus "+path(&all[i])+" is Available")
		} else {
			f.Evidence = append(f.Evidence, "Prometheus "+path(&all[i])+" is not Available")
		}
	}
	if len(all) == 0 {
		f.Evidence = []string{"there is no Prometheus of the Prometheus operator"}
		return f, nil
	}
	for _, kind := range []string{"ServiceMonitor", "PodMonitor"} {
		v := c.version(promGroup, kind)
		if v == "" {
			continue
		}
		n, err := c.kube.Count(ctx, promGroup+"/"+v, kind)
		if err != nil {
			return Finding{}, err
		}
		f.Evidence = append(f.Evidence, fmt.Sprintf("%d %ss say what it collects", n, kind))
	}
	return f, nil
}
