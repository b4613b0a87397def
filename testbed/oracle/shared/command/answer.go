package command

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"grovemigrator/oracle/decode"
	"grovemigrator/oracle/kubernetes"
)

// question is one line of input; the values keep their bytes.
type question struct {
	ID    string          `json:"id"`
	Input json.RawMessage `json:"input"`
	PCS   json.RawMessage `json:"pcs"`
}

// reply is one line of output.
type reply struct {
	ID        string `json:"id"`
	Error     bool   `json:"error,omitempty"`
	Message   string `json:"message,omitempty"`
	Legacy    any    `json:"legacy,omitempty"`
	Canonical any    `json:"canonical,omitempty"`
}

type setHash struct {
	GenerationHash    string            `json:"generationHash"`
	PodTemplateHashes map[string]string `json:"podTemplateHashes"`
}

type aboutTemplate func(*corev1.PodTemplateSpec) (legacy, canonical any)

// answer writes one reply for each line.
func answer(in io.Reader, out io.Writer, template aboutTemplate) error {
	writer := bufio.NewWriter(out)
	encoder := json.NewEncoder(writer)
	encoder.SetEscapeHTML(false)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<26)
	for lines.Scan() {
		reply, err := answerOne(lines.Bytes(), template)
		if err != nil {
			return err
		}
		if err := encoder.Encode(reply); err != nil {
			return err
		}
	}
	return errors.Join(lines.Err(), writer.Flush())
}

func answerOne(line []byte, template aboutTemplate) (reply, error) {
	var question question
	if err := json.Unmarshal(line, &question); err != nil {
		return reply{}, fmt.Errorf("a line that is not JSON: %w: %.200s", err, line)
	}
	out := reply{ID: question.ID}
	var err error
	switch {
	case question.PCS != nil:
		var decoded decode.PodCliqueSet
		if decoded, err = decode.Set(question.PCS); err == nil {
			out.Legacy, out.Canonical = setHashes(decoded)
		}
	case question.Input != nil:
		var decoded *corev1.PodTemplateSpec
		if decoded, err = decode.Template(question.Input); err == nil {
			out.Legacy, out.Canonical = template(decoded)
		}
	default:
		return reply{}, fmt.Errorf("a line with neither input nor pcs: %.200s", line)
	}
	if err != nil {
		out.Error, out.Message = true, err.Error()
	}
	return out, nil
}

func templateHashes(pod *corev1.PodTemplateSpec) (legacy, canonical any) {
	return kubernetes.Hash(kubernetes.LegacyText(pod)), kubernetes.Hash(kubernetes.CanonicalText(pod))
}

func setHashes(set decode.PodCliqueSet) (legacy, canonical any) {
	return hashesOf(set, kubernetes.LegacyTexts(set.Templates), kubernetes.LegacyText),
		hashesOf(set, kubernetes.CanonicalTexts(set.Templates, set.InOrder), kubernetes.CanonicalText)
}

func hashesOf(set decode.PodCliqueSet, generation []string, text func(*corev1.PodTemplateSpec) string) setHash {
	out := setHash{GenerationHash: kubernetes.Hash(generation...), PodTemplateHashes: map[string]string{}}
	for _, template := range set.Templates {
		out.PodTemplateHashes[template.Clique] = kubernetes.Hash(text(template.Pod))
	}
	return out
}
