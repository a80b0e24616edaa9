"""Writes the fixture of the measures of quality: random and edge cases, with the values of scikit-learn and seqeval.

    pip install scikit-learn seqeval
    python tools/quality/fixtures.py core/model/tests/quality/measures.json

With `--check` it compares the file with new values instead."""

import json
import math
import sys

import numpy as np
import sklearn
from seqeval.metrics.sequence_labeling import precision_recall_fscore_support as entity_rates
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support, roc_auc_score


def rates(truth, predicted, labels, average):
    values = precision_recall_fscore_support(truth, predicted, labels=labels, average=average, zero_division=0)[:3]
    return [np.asarray(v).tolist() for v in values]


def area(truth, scores, average):
    """None where scikit-learn has no value."""
    k = scores.shape[1]
    if len(set(truth)) < (k if average == "macro" else 2):
        return None
    one_hot = np.eye(k)[truth]
    return float(roc_auc_score(one_hot, scores, average=average))


def classes(truth, predicted, scores):
    k = scores.shape[1]
    labels = list(range(k))
    counts = np.bincount(truth, minlength=k)
    constant = np.zeros_like(scores)
    constant[:, counts.argmax()] = 1
    return {
        "classes": k,
        "truth": [int(x) for x in truth],
        "predicted": [int(x) for x in predicted],
        "scores": scores.ravel().tolist(),
        "confusion": confusion_matrix(truth, predicted, labels=labels).ravel().tolist(),
        "per_class": rates(truth, predicted, labels, None),
        "macro": rates(truth, predicted, labels, "macro"),
        "micro": rates(truth, predicted, labels, "micro"),
        "weighted": rates(truth, predicted, labels, "weighted"),
        "auc_macro": area(truth, scores, "macro"),
        "auc_micro": area(truth, scores, "micro"),
        "baseline_micro": area(truth, constant, "micro"),
    }


def entities(truth, predicted):
    value = lambda average: [float(v) for v in entity_rates(truth, predicted, average=average, zero_division=0)[:3]]
    types = sorted({tag[2:] for row in truth + predicted for tag in row if tag != "O"})
    per_type = [np.asarray(v).tolist() for v in entity_rates(truth, predicted, average=None, zero_division=0)[:3]]
    return {
        "truth": truth,
        "predicted": predicted,
        "types": types,
        "per_type": per_type,
        "micro": value("micro"),
        "macro": value("macro"),
    }


def all_cases():
    random = np.random.default_rng(20261129)
    made = []
    for n, k in [(2, 2), (3, 2), (17, 2), (50, 3), (200, 5), (40, 10)]:
        truth = random.integers(0, k, n)
        # Rounded scores have ties.
        scores = np.round(random.random((n, k)) + 0.7 * np.eye(k)[truth], 1)
        made.append(classes(truth, scores.argmax(axis=1), scores))
    # One class alone, a class never predicted, and all scores equal.
    made.append(classes(np.zeros(4, int), np.array([0, 0, 1, 0]), np.tile([0.5, 0.5], (4, 1))))
    made.append(classes(np.array([0, 1, 2, 2]), np.array([0, 0, 2, 2]), np.full((4, 3), 0.25)))
    made.append(classes(np.array([0, 1]), np.array([1, 0]), np.array([[0.0, 1.0], [1.0, -0.0]])))
    tagged = []
    tags = ["O", "O", "B-drug", "I-drug", "B-dose", "I-dose", "B-test", "I-test"]
    for rows, length in [(1, 1), (3, 8), (20, 15)]:
        draw = lambda: [[tags[i] for i in random.integers(0, len(tags), length)] for _ in range(rows)]
        truth = draw()
        predicted = [[t if random.random() < 0.7 else tags[random.integers(0, len(tags))] for t in row] for row in truth]
        tagged.append(entities(truth, predicted))
    tagged.append(entities([["B-a", "I-a", "O"]], [["I-a", "I-a", "O"]]))
    tagged.append(entities([["B-a", "B-a", "I-b", "I-a"]], [["B-a", "I-a", "I-b", "O"]]))
    tagged.append(entities([["B-a", "O"]], [["O", "O"]]))
    return {"classes": made, "entities": tagged}


def equal(a, b):
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(equal(a[k], b[k]) for k in a)
    if isinstance(a, list):
        return len(a) == len(b) and all(equal(x, y) for x, y in zip(a, b))
    return math.isclose(a, b, abs_tol=1e-12) if isinstance(a, float) and b is not None else a == b


def main():
    check, paths = "--check" in sys.argv, [a for a in sys.argv[1:] if a != "--check"]
    made = all_cases()
    if check:
        with open(paths[0]) as file:
            sys.exit(0 if equal(made, json.load(file)) else f"{paths[0]} differs from scikit-learn {sklearn.__version__}")
    with open(paths[0], "w") as file:
        json.dump(made, file, separators=(",", ":"))
        file.write("\n")


main()
