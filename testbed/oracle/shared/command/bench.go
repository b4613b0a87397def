package command

import (
	"errors"
	"fmt"
	"io"
	"time"

	corev1 "k8s.io/api/core/v1"

	"grovemigrator/oracle/kubernetes"
)

// atLeast is how long is measured.
const atLeast = 300 * time.Millisecond

// bench decodes every template of the input once, and then measures how many nanoseconds a legacy hash of an
// already decoded template takes. Inputs that cannot be decoded are left out.
func bench(in io.Reader, out io.Writer) error {
	var pods []*corev1.PodTemplateSpec
	keep := func(pod *corev1.PodTemplateSpec) (legacy, canonical any) {
		pods = append(pods, pod)
		return nil, nil
	}
	if err := answer(in, io.Discard, keep); err != nil {
		return err
	}
	if len(pods) == 0 {
		return errors.New("bench: no template in the input can be decoded")
	}
	hashed, start := 0, time.Now()
	for time.Since(start) < atLeast {
		for _, pod := range pods {
			kubernetes.Hash(kubernetes.LegacyText(pod))
		}
		hashed += len(pods)
	}
	_, err := fmt.Fprintln(out, time.Since(start).Nanoseconds()/int64(hashed))
	return err
}
