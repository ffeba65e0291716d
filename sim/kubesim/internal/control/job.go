package control

import (
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (c *Controllers) jobs(pods podIndex) {
	for _, j := range All[batchv1.Job](c, "jobs.batch") {
		if j.DeletionTimestamp == nil && or(j.Spec.ManagedBy, batchv1.JobControllerName) == batchv1.JobControllerName {
			c.job(j, pods.byOwner[j.UID])
		}
	}
}

func jobEnded(j *batchv1.Job) *batchv1.JobCondition {
	for i, cond := range j.Status.Conditions {
		if (cond.Type == batchv1.JobComplete || cond.Type == batchv1.JobFailed) && cond.Status == corev1.ConditionTrue {
			return &j.Status.Conditions[i]
		}
	}
	return nil
}

// job runs pods to their end: pkg/controller/job.
func (c *Controllers) job(j *batchv1.Job, pods []*corev1.Pod) {
	if end := jobEnded(j); end != nil {
		if ttl := j.Spec.TTLSecondsAfterFinished; ttl != nil {
			if left := time.Until(end.LastTransitionTime.Add(time.Duration(*ttl) * time.Second)); left > 0 {
				c.WakeAfter(left)
			} else {
				c.Delete(j, nil)
			}
		}
		return
	}
	out := j.DeepCopy()
	s := &out.Status
	s.Active, s.Succeeded, s.Failed = 0, 0, 0
	terminating, readyPods := int32(0), int32(0)
	var running []*corev1.Pod
	var lastFailure time.Time
	for _, p := range pods {
		switch {
		case p.Status.Phase == corev1.PodSucceeded:
			s.Succeeded++
		case p.Status.Phase == corev1.PodFailed:
			s.Failed++
			lastFailure = later(lastFailure, failedAt(p))
		case p.DeletionTimestamp != nil:
			terminating++
		default:
			running = append(running, p)
			s.Active++
			if Ready(p) {
				readyPods++
			}
		}
	}
	suspended := or(j.Spec.Suspend, false)
	t := now()
	if s.StartTime == nil && !suspended {
		s.StartTime = &t
	}
	c.decideJob(j, s, running, suspended, lastFailure)
	s.Ready, s.Terminating = &readyPods, &terminating
	s.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	c.Status(out)
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func failedAt(p *corev1.Pod) time.Time {
	var at time.Time
	for _, cs := range p.Status.ContainerStatuses {
		if t := cs.State.Terminated; t != nil {
			at = later(at, t.FinishedAt.Time)
		}
	}
	return later(at, p.CreationTimestamp.Time)
}

// decideJob ends a Job, stops its pods, or starts the next.
func (c *Controllers) decideJob(j *batchv1.Job, s *batchv1.JobStatus, running []*corev1.Pod, suspended bool, lastFailure time.Time) {
	completions := or(j.Spec.Completions, 0) // none: one success is enough, when all have ended
	stop := func() {
		for _, p := range running {
			c.delete(j, p)
		}
		s.Active = 0
	}
	fail := func(reason, message string) {
		stop()
		endJob(s, batchv1.JobFailureTarget, batchv1.JobFailed, reason, message)
		c.Event(j, corev1.EventTypeWarning, reason, message)
	}
	deadline := j.Spec.ActiveDeadlineSeconds
	switch {
	case completions > 0 && s.Succeeded >= completions, completions == 0 && s.Succeeded > 0 && s.Active == 0:
		stop()
		t := now()
		s.CompletionTime = &t
		endJob(s, batchv1.JobSuccessCriteriaMet, batchv1.JobComplete, batchv1.JobReasonCompletionsReached, "Reached expected number of succeeded pods")
		c.Event(j, corev1.EventTypeNormal, "Completed", "Job completed")
		return
	case s.Failed > or(j.Spec.BackoffLimit, 6):
		fail(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
		return
	case suspended:
		stop()
		c.suspendJob(j, s, true)
		s.StartTime = nil
		return
	case deadline != nil && s.StartTime != nil:
		left := time.Until(s.StartTime.Add(time.Duration(*deadline) * time.Second))
		if left <= 0 {
			fail(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
			return
		}
		c.WakeAfter(left)
	}
	c.suspendJob(j, s, false)
	want := or(j.Spec.Parallelism, 1)
	if completions > 0 {
		want = min(want, completions-s.Succeeded)
	} else if s.Succeeded > 0 {
		want = s.Active
	}
	if s.Failed > 0 { // ten seconds after the first failure, twice as long after each further
		pause := min(10*time.Second<<min(s.Failed-1, 6), 10*time.Minute)
		if left := time.Until(lastFailure.Add(pause)); left > 0 {
			c.WakeAfter(left)
			return
		}
	}
	for range want - s.Active {
		p := newPod(j, "batch/v1", "Job", j.Name+"-"+c.Suffix(), &j.Spec.Template)
		p.GenerateName = j.Name + "-"
		if c.create(j, p) {
			s.Active++
		}
	}
}

func endJob(s *batchv1.JobStatus, target, end batchv1.JobConditionType, reason, message string) {
	for _, kind := range []batchv1.JobConditionType{target, end} {
		s.Conditions = append(s.Conditions, batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: message,
			LastProbeTime: now(), LastTransitionTime: now()})
	}
}

func (c *Controllers) suspendJob(j *batchv1.Job, s *batchv1.JobStatus, yes bool) {
	status, reason, message := corev1.ConditionFalse, "JobResumed", "Job resumed"
	if yes {
		status, reason, message = corev1.ConditionTrue, "JobSuspended", "Job suspended"
	}
	for i := range s.Conditions {
		if cond := &s.Conditions[i]; cond.Type == batchv1.JobSuspended {
			if cond.Status != status {
				c.Event(j, corev1.EventTypeNormal, map[bool]string{true: "Suspended", false: "Resumed"}[yes], message)
				*cond = batchv1.JobCondition{Type: batchv1.JobSuspended, Status: status, Reason: reason, Message: message, LastProbeTime: now(), LastTransitionTime: now()}
			}
			return
		}
	}
	if yes {
		c.Event(j, corev1.EventTypeNormal, "Suspended", message)
		s.Conditions = append(s.Conditions, batchv1.JobCondition{Type: batchv1.JobSuspended, Status: status, Reason: reason, Message: message,
			LastProbeTime: now(), LastTransitionTime: now()})
	}
}

// cronJobs makes the Jobs that are due: pkg/controller/cronjob.
func (c *Controllers) cronJobs() {
	for _, cj := range All[batchv1.CronJob](c, "cronjobs.batch") {
		if cj.DeletionTimestamp != nil || or(cj.Spec.Suspend, false) {
			continue
		}
		text := cj.Spec.Schedule
		if cj.Spec.TimeZone != nil {
			text = "TZ=" + *cj.Spec.TimeZone + " " + text
		}
		schedule, err := cron.ParseStandard(text)
		if err != nil {
			c.Event(cj, corev1.EventTypeWarning, "UnparseableSchedule", fmt.Sprintf("unparseable schedule: %s : %v", cj.Spec.Schedule, err))
			continue
		}
		last := cj.CreationTimestamp.Time
		if cj.Status.LastScheduleTime != nil {
			last = cj.Status.LastScheduleTime.Time
		}
		due := schedule.Next(last)
		if left := time.Until(due); left > 0 {
			c.WakeAfter(left)
			continue
		}
		for next := schedule.Next(due); !next.After(time.Now()); next = schedule.Next(due) {
			due = next
		}
		if limit := cj.Spec.StartingDeadlineSeconds; limit != nil && time.Since(due) > time.Duration(*limit)*time.Second {
			c.WakeAfter(time.Until(schedule.Next(time.Now())))
			continue
		}
		c.cronJob(cj, due)
	}
}

func (c *Controllers) cronJob(cj *batchv1.CronJob, due time.Time) {
	out := cj.DeepCopy()
	t := metav1.NewTime(due)
	out.Status.LastScheduleTime = &t
	name := fmt.Sprintf("%s-%d", cj.Name, due.Unix()/60)
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: cj.Namespace, Labels: cj.Spec.JobTemplate.Labels,
		Annotations: cj.Spec.JobTemplate.Annotations, OwnerReferences: controlledBy(cj, "batch/v1", "CronJob")}, Spec: *cj.Spec.JobTemplate.Spec.DeepCopy()}
	if err := c.Create(job); err != nil {
		c.Event(cj, corev1.EventTypeWarning, "FailedCreate", fmt.Sprintf("Error creating job: %v", err))
	} else {
		c.Event(cj, corev1.EventTypeNormal, "SuccessfulCreate", "Created job "+name)
	}
	c.Status(out)
}
