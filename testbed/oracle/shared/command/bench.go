package command

import (
	"bufio"
	"encoding/json"
	"errors"
	"io"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"

	"grovemigrator/oracle/decode"
	"grovemigrator/oracle/kubernetes"
)

// bench decodes every template of the input once, and then measures on one core how long a hash of an
// already decoded template takes. Inputs that cannot be decoded are left out.
func bench(in io.Reader, out io.Writer, atLeast time.Duration) error {
	pods, err := readTemplates(in)
	if err != nil {
		return err
	}
	if len(pods) == 0 {
		return errors.New("bench: no template in the input can be decoded")
	}
	runtime.GOMAXPROCS(1)
	return json.NewEncoder(out).Encode(map[string]any{
		"templates":                       len(pods),
		"legacyNanosecondsPerTemplate":    measure(pods, atLeast, kubernetes.LegacyText),
		"canonicalNanosecondsPerTemplate": measure(pods, atLeast, kubernetes.CanonicalText),
	})
}

func readTemplates(in io.Reader) ([]*corev1.PodTemplateSpec, error) {
	var pods []*corev1.PodTemplateSpec
	decoder := json.NewDecoder(bufio.NewReader(in))
	for {
		var question question
		if err := decoder.Decode(&question); errors.Is(err, io.EOF) {
			return pods, nil
		} else if err != nil {
			return nil, err
		}
		if pod, err := decode.Template(question.Input); err == nil {
			pods = append(pods, pod)
		}
	}
}

func measure(pods []*corev1.PodTemplateSpec, atLeast time.Duration, text func(*corev1.PodTemplateSpec) string) int64 {
	hashed := 0
	start := time.Now()
	for time.Since(start) < atLeast {
		for _, pod := range pods {
			kubernetes.Hash(text(pod))
		}
		hashed += len(pods)
	}
	return time.Since(start).Nanoseconds() / int64(hashed)
}
