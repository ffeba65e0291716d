package addon_test

import (
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// alertCase is what Prometheus has read, a minute a value, and what an alert says of it.
type alertCase struct {
	alert  string
	series map[string]string // values in promtool's notation
	quiet  string            // when it is silent; empty: never tried
	at     string            // when it fires; empty: it never does
	labels map[string]string // that it has then, besides its severity
	says   string
}

const barman = "barman_cloud_cloudnative_pg_io_"

var alertCases = []alertCase{
	{alert: "NodeCordoned", series: map[string]string{`kube_node_spec_unschedulable{node="wk1"}`: "0x9 1x400", `kube_node_spec_unschedulable{node="wk2"}`: "0x400"}, quiet: "6h5m", at: "6h11m",
		labels: map[string]string{"node": "wk1"}, says: "wk1 has been drained or cordoned for six hours and gets no pods: node:uncordon releases it."},
	{alert: "NodeReadOnly", series: map[string]string{`node_filesystem_readonly{instance="wk1",fstype="ext4",mountpoint="/"}`: "0x4 1x10",
		`node_filesystem_readonly{instance="wk1",fstype="squashfs",mountpoint="/snap/x"}`: "1x20", `node_filesystem_readonly{instance="wk1",fstype="ext4",mountpoint="/mnt"}`: "1x20"}, quiet: "5m", at: "6m",
		labels: map[string]string{"instance": "wk1", "fstype": "ext4", "mountpoint": "/"}, says: "/ at wk1 is read-only: its disk failed. cluster:doctor says what to do."},
	{alert: "NodeOutOfMemory", series: map[string]string{`node_vmstat_oom_kill{instance="wk1"}`: "3x9 4x40"}, quiet: "9m", at: "11m",
		labels: map[string]string{"instance": "wk1"}, says: "The kernel at wk1 ended programs because memory ran out: cluster:doctor names them."},
	{alert: "NodeOutOfMemory", series: map[string]string{`node_vmstat_oom_kill{instance="wk1"}`: "3x9 4x40"}, quiet: "30m"},
	{alert: "PodEvicted", series: map[string]string{`kube_pod_status_reason{namespace="a",pod="b",reason="Evicted"}`: "0x4 1x4", `kube_pod_status_reason{namespace="a",pod="b",reason="Shutdown"}`: "1x9"}, quiet: "4m", at: "5m",
		labels: map[string]string{"namespace": "a", "pod": "b", "reason": "Evicted"}, says: "a/b was evicted: its node was short of disk or memory."},
	{alert: "NamespaceStuck", series: map[string]string{`kube_namespace_status_phase{namespace="a",phase="Terminating"}`: "1x30", `kube_namespace_status_phase{namespace="b",phase="Terminating"}`: "1x5 0x30"}, quiet: "14m", at: "16m",
		labels: map[string]string{"namespace": "a", "phase": "Terminating"}, says: "The deletion of the namespace a does not end: cluster:doctor says what it waits for."},

	{alert: "GPUStopped", series: map[string]string{`DCGM_FI_DEV_XID_ERRORS{node="wk1",gpu="0"}`: "0x4 79x4", `DCGM_FI_DEV_XID_ERRORS{node="wk1",gpu="1"}`: "13x9"}, quiet: "4m", at: "5m", // 13: a program's own mistake
		labels: map[string]string{"node": "wk1", "gpu": "0"}, says: "GPU 0 of wk1 no longer computes: Xid 79. cluster:doctor says what to do."},
	{alert: "GPUMissing", series: map[string]string{`DCGM_FI_DEV_GPU_TEMP{node="wk1",gpu="0"}`: "40x200", `DCGM_FI_DEV_GPU_TEMP{node="wk1",gpu="1"}`: "40x60 stale"}, quiet: "1h", at: "80m",
		labels: map[string]string{"node": "wk1"}, says: "wk1 has 1 GPUs, and had more within a day: cluster:doctor says why."},
	{alert: "GPUMissing", series: map[string]string{`DCGM_FI_DEV_GPU_TEMP{node="wk1",gpu="0"}`: "40x200"}, quiet: "3h"},
	{alert: "GPUMemoryFailing", series: map[string]string{`DCGM_FI_DEV_ROW_REMAP_FAILURE{node="wk1",gpu="0"}`: "0x4 1x4"}, quiet: "4m", at: "5m",
		labels: map[string]string{"node": "wk1", "gpu": "0"}, says: "A bad row of memory of GPU 0 of wk1 could not be remapped: have the card replaced."},
	{alert: "GPUHot", series: map[string]string{`DCGM_FI_DEV_GPU_TEMP{node="wk1",gpu="0"}`: "90x4 91x20"}, quiet: "14m", at: "16m",
		labels: map[string]string{"node": "wk1", "gpu": "0"}, says: "GPU 0 of wk1 has 91 °C: look at fans, dust and airflow."},
	{alert: "GPUsNotOffered", series: map[string]string{`kube_node_status_capacity{node="wk1",resource="nvidia_com_gpu"}`: "2x20", `kube_node_status_allocatable{node="wk1",resource="nvidia_com_gpu"}`: "2x4 1x20",
		`kube_node_status_capacity{node="wk1",resource="memory"}`: "64x20", `kube_node_status_allocatable{node="wk1",resource="memory"}`: "60x20"}, quiet: "14m", at: "16m",
		labels: map[string]string{"node": "wk1", "resource": "nvidia_com_gpu"}, says: "wk1 has 2 of nvidia_com_gpu and offers fewer: cluster:doctor says why."},

	{alert: "CertificateNotReady", series: map[string]string{`certmanager_certificate_ready_status{exported_namespace="a",name="b",condition="True"}`: "0x90", `certmanager_certificate_ready_status{exported_namespace="a",name="b",condition="False"}`: "1x90",
		`certmanager_certificate_ready_status{exported_namespace="a",name="c",condition="False"}`: "0x90"}, quiet: "59m", at: "61m",
		labels: map[string]string{"exported_namespace": "a", "name": "b", "condition": "True"}, says: "The certificate a/b is not there or has ended: kubectl describe certificate says why."},
	{alert: "CertificateNotRenewed", series: map[string]string{`certmanager_certificate_renewal_timestamp_seconds{exported_namespace="a",name="b"}`: "60x2000", // a minute after the beginning
		`certmanager_certificate_renewal_timestamp_seconds{exported_namespace="a",name="c"}`: "0x2000"}, quiet: "24h5m", at: "24h12m",
		labels: map[string]string{"exported_namespace": "a", "name": "b"}, says: "The certificate a/b was to be renewed a day ago: kubectl describe certificate says why."},

	{alert: "DatabaseNotArchiving", series: map[string]string{`cnpg_pg_stat_archiver_last_failed_time{namespace="a",pod="b-1"}`: "-1x4 100x30", `cnpg_pg_stat_archiver_last_archived_time{namespace="a",pod="b-1"}`: "90x40"}, quiet: "19m", at: "21m",
		labels: map[string]string{"namespace": "a", "pod": "b-1"}, says: "Changes of the database of a/b-1 do not get into the bucket, and its volume fills: the pod's log says why."},
	{alert: "DatabaseBackupFailed", series: map[string]string{barman + `last_failed_backup_timestamp{namespace="a",pod="b-1"}`: "0x4 100x4", barman + `last_available_backup_timestamp{namespace="a",pod="b-1"}`: "90x9"}, quiet: "4m", at: "5m",
		labels: map[string]string{"namespace": "a", "pod": "b-1"}, says: "The last backup of the database of a/b-1 failed: kubectl get backups.postgresql.cnpg.io says why."},
	{alert: "BackupFailed", series: map[string]string{`velero_backup_failure_total{schedule="nightly"}`: "0x100", `velero_backup_partial_failure_total{schedule="nightly"}`: "0x4 1x100", `velero_backup_validation_failure_total{schedule="nightly"}`: "0x100",
		`velero_backup_failure_total{schedule=""}`: "0x4 1x100", `velero_backup_partial_failure_total{schedule=""}`: "0x100", `velero_backup_validation_failure_total{schedule=""}`: "0x100"}, quiet: "4m", at: "6m",
		labels: map[string]string{"schedule": "nightly"}, says: "A backup of the schedule nightly failed within a day, at least in part: velero backup logs says why."},
}

// TestAlertsFire has Prometheus' own program evaluate the rules: each fires when it should, with its words, and is silent before.
func TestAlertsFire(t *testing.T) {
	promtool, err := exec.LookPath("promtool")
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("promtool is not installed (Debian's package prometheus)")
	}
	require.NoError(t, err)
	rules := alertRules(t)
	var all, tests []any
	tried := map[string]bool{}
	for _, rule := range rules {
		all = append(all, rule)
	}
	for _, c := range alertCases {
		tried[c.alert] = true
		tests = append(tests, c.test(rules[c.alert]))
	}
	for name := range rules {
		assert.True(t, tried[name], "no series for %s", name)
	}
	dir := t.TempDir()
	write := func(name string, v any) {
		text, err := json.Marshal(v) // which is YAML too
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), text, 0o600))
	}
	write("rules.yaml", map[string]any{"groups": []any{map[string]any{"name": "all", "rules": all}}})
	write("tests.yaml", map[string]any{"rule_files": []string{"rules.yaml"}, "evaluation_interval": "1m", "tests": tests})
	out, err := exec.CommandContext(t.Context(), promtool, "test", "rules", filepath.Join(dir, "tests.yaml")).CombinedOutput()
	require.NoError(t, err, "%s", out)
}

// test is the case for promtool.
func (c alertCase) test(rule any) any {
	var series, times []any
	for name, each := range c.series {
		series = append(series, map[string]any{"series": name, "values": each})
	}
	look := func(at string, alerts ...any) {
		if at != "" {
			times = append(times, map[string]any{"eval_time": at, "alertname": c.alert, "exp_alerts": alerts})
		}
	}
	look(c.quiet)
	labels := maps.Clone(c.labels)
	if labels != nil {
		labels["severity"] = dig(rule, "labels", "severity").(string)
	}
	look(c.at, map[string]any{"exp_labels": labels, "exp_annotations": map[string]string{"summary": c.says}})
	return map[string]any{"interval": "1m", "input_series": series, "alert_rule_test": times}
}
