package addon

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/cps-gpu/homelab/kube"
	"github.com/cps-gpu/homelab/kube/verify"
)

// deliver gives Alertmanager an alert, and waits until it has told all whom the file names, which takes as long as
// it waits for further alerts (group_wait, 30 s). A silence then keeps it from telling them that the alert is over.
func (m Monitoring) deliver(ctx context.Context, c verify.Cluster) (seen string, err error) {
	before, err := deliveries(ctx, c)
	if err != nil {
		return "", err
	}
	began := time.Now()
	// By the name it is alone in its group, so that it waits for no other.
	name := "Test by platform:verify at " + began.UTC().Format("2006-01-02 15:04:05")
	const lasts = 5 * time.Minute
	err = alertmanager(ctx, c, "/api/v2/alerts", []any{values{
		"labels":      values{"alertname": name, "severity": "warning"},
		"annotations": values{"summary": "Nothing is wrong: homelab platform:verify tried whether alerts arrive."},
		"endsAt":      began.Add(lasts).UTC().Format(time.RFC3339),
	}})
	if err != nil {
		return "", err
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err = errors.Join(err, alertmanager(ctx, c, "/api/v2/silences", values{
			"matchers": []any{values{"name": "alertname", "value": name, "isRegex": false, "isEqual": true}},
			"startsAt": time.Now().UTC().Format(time.RFC3339), "endsAt": began.Add(6 * lasts).UTC().Format(time.RFC3339),
			"createdBy": "homelab", "comment": "a test alert, which has been delivered",
		}))
	}()
	want := m.integrations()
	err = verify.Await(ctx, func(ctx context.Context) (string, error) {
		now, err := deliveries(ctx, c)
		if err != nil {
			return "", err
		}
		for _, by := range slices.Sorted(maps.Keys(want)) {
			d := now[by].minus(before[by])
			switch {
			case d.given > 0:
				return "", fmt.Errorf("it could not be delivered by %s: %s", by, alertmanagerSays)
			case d.sent-d.failed < float64(want[by]) && d.failed > 0:
				return fmt.Sprintf("each attempt to deliver it by %s failed, %.0f so far: %s", by, d.failed, alertmanagerSays), nil
			case d.sent-d.failed < float64(want[by]):
				return fmt.Sprintf("Alertmanager has not tried to deliver it by %s", by), nil
			}
		}
		return "", nil
	})
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("by %s, after %s", strings.Join(slices.Sorted(maps.Keys(want)), " and "), time.Since(began).Round(time.Second)), nil
}

// alertmanagerSays is where Alertmanager says why; it may name who is told, which is secret.
const alertmanagerSays = "kubectl -n " + monitoringNamespace + " logs alertmanager-" + alertmanagerService + "-0 -c alertmanager says why"

// integrations are Alertmanager's names of the ways on which it tells people, and how many there are of each.
func (m Monitoring) integrations() map[string]int {
	out := map[string]int{}
	if !m.Alerts.Ntfy.IsZero() {
		out["webhook"]++
	}
	if !m.Alerts.Webhook.IsZero() {
		out["webhook"]++
	}
	if m.Alerts.Mail != nil {
		out["email"]++
	}
	return out
}

func alertmanager(ctx context.Context, c verify.Cluster, path string, body any) error {
	_, err := c.Ask(ctx, kube.ServiceRequest{Namespace: monitoringNamespace, Service: alertmanagerService, Port: "9093", Path: path, Body: body})
	return err
}

// delivery counts what Alertmanager did by one integration: attempts, failed attempts, and notifications that it gave up.
type delivery struct{ sent, failed, given float64 }

func (d delivery) minus(before delivery) delivery {
	return delivery{d.sent - before.sent, d.failed - before.failed, d.given - before.given}
}

// deliveries reads Alertmanager's counters (notify/metrics.go of v0.34, counted in notify/retry_stage.go), by integration.
// If it is told to, it counts each receiver by itself.
func deliveries(ctx context.Context, c verify.Cluster) (map[string]delivery, error) {
	text, err := c.Ask(ctx, kube.ServiceRequest{Namespace: monitoringNamespace, Service: alertmanagerService, Port: "9093", Path: "/metrics"})
	if err != nil {
		return nil, err
	}
	line := regexp.MustCompile(`(?m)^alertmanager_(notification_requests_total|notification_requests_failed_total|notifications_failed_total)\{(?:[^}]*,)?integration="([a-z0-9]+)"[^}]*\} (\S+)$`)
	out := map[string]delivery{}
	for _, m := range line.FindAllStringSubmatch(string(text), -1) {
		n, err := strconv.ParseFloat(m[3], 64)
		if err != nil {
			return nil, fmt.Errorf("a counter of Alertmanager: %w", err)
		}
		d := out[m[2]]
		switch m[1] {
		case "notification_requests_total":
			d.sent += n
		case "notification_requests_failed_total":
			d.failed += n
		default:
			d.given += n
		}
		out[m[2]] = d
	}
	return out, nil
}
