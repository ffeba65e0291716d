package addon

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/cps-gpu/homelab/nvidia"
)

// Rules of alerts for what cluster:doctor finds, where a metric of an installed part shows it. docs/doctor.md has
// which alert tells which failure; the rules of the chart of Prometheus are not repeated here.

func alertRule(name, severity, expr, lasts, summary string) any {
	return values{"alert": name, "expr": expr, "for": lasts, "labels": values{"severity": severity}, "annotations": values{"summary": summary}}
}

func ruleGroup(name string, rules []any) values {
	return values{"groups": []any{values{"name": name, "rules": rules}}}
}

// rulesOf is an object with the rules of a part, for Prometheus' operator.
func rulesOf(part, namespace string, rules []any) runtime.Object {
	return object("monitoring.coreos.com/v1", "PrometheusRule", meta(part, namespace, "homelab-"+part), ruleGroup(part, rules))
}

// clusterRules are alerts for what node exporter and kube-state-metrics show and no rule of the chart asks.
func clusterRules() []any {
	return []any{
		alertRule("NodeCordoned", "warning", "kube_node_spec_unschedulable == 1", "6h",
			"{{ $labels.node }} has been drained or cordoned for six hours and gets no pods: node:uncordon releases it."),
		alertRule("NodeReadOnly", "critical", `node_filesystem_readonly{fstype=~"ext4|xfs|btrfs",mountpoint=~"/|/var(/.*)?"} == 1`, "1m",
			"{{ $labels.mountpoint }} at {{ $labels.instance }} is read-only: its disk failed. cluster:doctor says what to do."),
		alertRule("NodeOutOfMemory", "warning", "increase(node_vmstat_oom_kill[15m]) > 0", "0s",
			"The kernel at {{ $labels.instance }} ended programs because memory ran out: cluster:doctor names them."),
		alertRule("PodEvicted", "warning", `kube_pod_status_reason{reason="Evicted"} == 1`, "0s",
			"{{ $labels.namespace }}/{{ $labels.pod }} was evicted: its node was short of disk or memory."),
		alertRule("NamespaceStuck", "warning", `kube_namespace_status_phase{phase="Terminating"} == 1`, "15m",
			"The deletion of the namespace {{ $labels.namespace }} does not end: cluster:doctor says what it waits for."),
	}
}

// gpuRules are alerts for what DCGM's exporter counts by default, and for what the nodes offer.
func gpuRules() []any {
	var fatal []string
	for _, n := range nvidia.FatalXids() {
		fatal = append(fatal, "DCGM_FI_DEV_XID_ERRORS == "+strconv.Itoa(n))
	}
	const card = "GPU {{ $labels.gpu }} of {{ $labels.node }}"
	const cards = "count by (node) (DCGM_FI_DEV_GPU_TEMP)"
	return []any{
		// The metric keeps the last error until the exporter restarts, which a restart of the machine does too.
		alertRule("GPUStopped", "critical", strings.Join(fatal, " or "), "0s", card+" no longer computes: Xid {{ $value }}. cluster:doctor says what to do."),
		alertRule("GPUMissing", "critical", cards+" < max_over_time(("+cards+")[1d:10m])", "10m",
			"{{ $labels.node }} has {{ $value }} GPUs, and had more within a day: cluster:doctor says why."),
		alertRule("GPUMemoryFailing", "critical", "DCGM_FI_DEV_ROW_REMAP_FAILURE > 0", "0s", "A bad row of memory of "+card+" could not be remapped: have the card replaced."),
		alertRule("GPUHot", "warning", "DCGM_FI_DEV_GPU_TEMP > 90", "10m", card+" has {{ $value }} °C: look at fans, dust and airflow."),
		alertRule("GPUsNotOffered", "warning", `kube_node_status_capacity{resource=~"nvidia_com_.+"} > kube_node_status_allocatable{resource=~"nvidia_com_.+"}`, "10m",
			"{{ $labels.node }} has {{ $value }} of {{ $labels.resource }} and offers fewer: cluster:doctor says why."),
	}
}

// certificateRules are alerts for what cert-manager counts (pkg/metrics/certificates.go).
func certificateRules() []any {
	return []any{
		alertRule("CertificateNotReady", "warning", `certmanager_certificate_ready_status{condition="True"} == 0`, "1h",
			"The certificate {{ $labels.exported_namespace }}/{{ $labels.name }} is not there or has ended: kubectl describe certificate says why."),
		alertRule("CertificateNotRenewed", "critical", "time() - (certmanager_certificate_renewal_timestamp_seconds > 0) > 86400", "10m",
			"The certificate {{ $labels.exported_namespace }}/{{ $labels.name }} was to be renewed a day ago: kubectl describe certificate says why."),
	}
}

// certificateMetrics are read from cert-manager, whose chart cannot have this: it is installed before Prometheus.
func certificateMetrics() runtime.Object {
	return object("monitoring.coreos.com/v1", "PodMonitor", meta("monitoring", monitoringNamespace, "cert-manager"), values{
		"namespaceSelector":   values{"matchNames": []any{certManagerNamespace}},
		"selector":            values{"matchLabels": values{"app.kubernetes.io/component": "controller", "app.kubernetes.io/name": "cert-manager"}},
		"podMetricsEndpoints": []any{values{"port": "http-metrics"}},
	})
}

// databaseRules are alerts for what databases show (cloudnative-pg v1.30.0, config/manager/default-monitoring.yaml;
// plugin-barman-cloud v0.13.0, internal/cnpgi/instance/metrics.go).
func databaseRules() []any {
	const plugin = "barman_cloud_cloudnative_pg_io_"
	return []any{
		alertRule("DatabaseNotArchiving", "critical", "cnpg_pg_stat_archiver_last_failed_time > cnpg_pg_stat_archiver_last_archived_time", "15m",
			"Changes of the database of {{ $labels.namespace }}/{{ $labels.pod }} do not get into the bucket, and its volume fills: the pod's log says why."),
		alertRule("DatabaseBackupFailed", "warning", plugin+"last_failed_backup_timestamp > "+plugin+"last_available_backup_timestamp", "0s",
			"The last backup of the database of {{ $labels.namespace }}/{{ $labels.pod }} failed: kubectl get backups.postgresql.cnpg.io says why."),
	}
}

// backupRules are alerts for what Velero counts (pkg/metrics/metrics.go). Its gauge backup_last_status says success again
// after a minute: the controller of schedules resets it (pkg/controller/schedule_controller.go).
func backupRules() []any {
	var failed []string
	for _, counter := range []string{"failure", "partial_failure", "validation_failure"} {
		failed = append(failed, `increase(velero_backup_`+counter+`_total{schedule!=""}[1d])`)
	}
	return []any{alertRule("BackupFailed", "warning", strings.Join(failed, " + ")+" > 0", "0s",
		"A backup of the schedule {{ $labels.schedule }} failed within a day, at least in part: velero backup logs says why.")}
}
