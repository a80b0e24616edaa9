"""Writes scikit-learn's breast-cancer and digits tables as CSV with a column `label`.

    pip install scikit-learn
    python tools/quality/tables.py native-cli/data

Both are from the UCI Machine Learning Repository, under CC BY 4.0: Breast Cancer Wisconsin (Diagnostic), Wolberg and others
(1995), doi 10.24432/C5DW2B; Optical Recognition of Handwritten Digits, Alpaydin and Kaynak (1998), doi 10.24432/C50P49."""

import sys
from pathlib import Path

from sklearn import datasets


def write(folder, name, table, labels):
    columns = [str(column).replace(" ", "_") for column in table.feature_names]
    lines = [",".join([*columns, "label"])]
    for row, label in zip(table.data.tolist(), labels):
        lines.append(",".join([f"{value:.6g}" for value in row] + [label]))
    (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")


folder = Path(sys.argv[1])
folder.mkdir(exist_ok=True)
cancer = datasets.load_breast_cancer()
write(folder, "breast-cancer", cancer, [str(cancer.target_names[label]) for label in cancer.target])
digits = datasets.load_digits()
write(folder, "digits", digits, [str(label) for label in digits.target])
