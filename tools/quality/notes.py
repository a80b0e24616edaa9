"""Writes synthetic clinical notes with entities, as lines of JSON.

    python tools/quality/notes.py native-cli/data/notes.jsonl
    python tools/quality/notes.py seen-words.jsonl --test templates
    python tools/quality/notes.py seen-templates.jsonl --test words

No sentence and no value is of a patient. Templates and words are this project's. Notes marked `test` have templates and words that no
note marked `train` has; `--test` marks notes that are new by templates or by words alone. Offsets are characters."""

import json
import random
import sys

# Words of entities: for training, and for the test.
WORDS = {
    "DRUG": (
        "metoprolol ramipril lisinopril bisoprolol atorvastatin simvastatin omeprazole pantoprazole amoxicillin clarithromycin "
        "azithromycin ceftriaxone ibuprofen naproxen paracetamol metformin furosemide torasemide apixaban enoxaparin prednisolone "
        "sertraline fluconazole amlodipine levothyroxine insulin_glargine acetylsalicylic_acid vitamin_D potassium_chloride "
        "salbutamol morphine tramadol",
        "carvedilol enalapril perindopril rosuvastatin lansoprazole ampicillin erythromycin cefuroxime ketoprofen sitagliptin "
        "rivaroxaban dalteparin citalopram voriconazole nifedipine insulin_lispro magnesium_sulfate terbutaline fentanyl",
    ),
    "PROBLEM": (
        "pneumonia bronchitis hypertension hypotension hyperkalaemia anaemia gastritis appendicitis cellulitis arthritis nausea "
        "vomiting dyspnoea fever chills headache dizziness palpitations syncope atrial_fibrillation heart_failure "
        "deep_vein_thrombosis chest_pain abdominal_pain urinary_tract_infection type_2_diabetes acute_kidney_injury dry_cough "
        "pleural_effusion weight_loss night_sweats sepsis",
        "hepatitis pancreatitis sinusitis hyponatraemia hyperglycaemia leukaemia tachycardia bradycardia diarrhoea fatigue "
        "pulmonary_embolism back_pain aortic_stenosis skin_infection productive_cough pericardial_effusion night_cramps "
        "Ménière’s_disease",
    ),
    "TEST": (
        "chest_x-ray ECG echocardiogram abdominal_ultrasound CT_scan MRI blood_count urinalysis blood_culture creatinine troponin "
        "C-reactive_protein HbA1c gastroscopy colonoscopy spirometry lumbar_puncture liver_panel sodium haemoglobin INR TSH",
        "EEG PET_scan stress_echocardiogram renal_ultrasound urine_culture ferritin procalcitonin D-dimer bronchoscopy "
        "sigmoidoscopy bone_marrow_biopsy lipid_panel potassium platelets",
    ),
    "ANATOMY": (
        "left_lung right_lung liver spleen left_knee right_hip abdomen chest lower_leg left_arm thyroid stomach right_kidney neck "
        "lumbar_spine forehead left_ventricle bladder",
        "left_kidney right_knee pancreas left_hip upper_arm cervical_spine left_ankle gallbladder right_atrium oesophagus scalp "
        "left_shoulder",
    ),
}
# Of doses; both parts share them.
UNITS = ["mg", "g", "mL", "units", "µg", "mmol"]
FREQUENCIES = ["daily", "twice daily", "three times daily", "at night", "every morning", "every 8 h", "every 12 h", "once"]

# Sentences: for training, and for the test.
TEMPLATES = (
    [
        "Patient admitted with {PROBLEM} and {PROBLEM}.",
        "Started on {DRUG} {DOSE} for {PROBLEM}.",
        "{DRUG} {DOSE} was continued.",
        "{TEST} showed no sign of {PROBLEM}.",
        "{TEST} of the {ANATOMY} was unremarkable.",
        "Pain in the {ANATOMY} since {days} days.",
        "History of {PROBLEM}, treated with {DRUG}.",
        "No {PROBLEM}, no {PROBLEM}.",
        "{PROBLEM} resolved after {DRUG} {DOSE}.",
        "Denies {PROBLEM}; reports {PROBLEM}.",
        "{TEST} and {TEST} were ordered.",
        "The {ANATOMY} is tender, with swelling of the {ANATOMY}.",
        "Discharged home with {DRUG} {DOSE} and {DRUG} {DOSE}.",
        "Stop {DRUG} because of {PROBLEM}.",
        "Plan: repeat {TEST} in {days} days.",
        "{TEST} confirmed {PROBLEM} in the {ANATOMY}.",
        "Known allergy to {DRUG}.",
        "On arrival: {PROBLEM}, {PROBLEM} and {PROBLEM}.",
        "Given {DRUG} {DOSE} in the emergency room.",
        "Slept well, ate half of the breakfast.",
        "Family was informed of the plan for the next {days} days.",
        "Vital signs stable, seen at {days} o'clock.",
        "Increase {DRUG} to {DOSE}.",
        "Awaiting {TEST}; then consider {DRUG}.",
        "He has been taking {DRUG} {DOSE} for his {PROBLEM}.",
        "Her {PROBLEM} improved while on {DRUG}.",
        "We will perform {TEST} tomorrow morning.",
        "Last {TEST} was normal, now follow-up in the clinic.",
        "Changed {DRUG} to {DRUG} {DOSE} after discussion with the family.",
        "Surgery on the {ANATOMY} was planned in spring.",
        "Please continue {DRUG} and review before discharge.",
        "Severe {PROBLEM} if {DRUG} is given with food.",
        "The wound over the {ANATOMY} is healing, dressing changed today.",
        "Her daughter visited and asked about the {TEST}.",
        "He walks alone with a stick, climbs {days} steps.",
        "She works as a teacher and lives with two children.",
        "Diagnosis: {PROBLEM}. Treatment: {DRUG} ({DOSE}).",
        "New onset of {PROBLEM} and persisting {PROBLEM}, suggests infection.",
        "Because of {PROBLEM}, {TEST} was delayed by {days} h.",
        "Next visit in {days} weeks, earlier if needed.",
        "Lower {DRUG} by half when {PROBLEM} is gone.",
        "Mild {PROBLEM} spreading from the {ANATOMY} into the {ANATOMY}.",
        "Smoked for {days} years, stopped last summer.",
        "Tolerated {DRUG} without {PROBLEM}.",
    ],
    [
        "Worsening {PROBLEM} despite {DRUG} {DOSE}.",
        "We switched from {DRUG} to {DRUG} {DOSE} today.",
        "Her {TEST} is pending, and {PROBLEM} persists.",
        "Operation of the {ANATOMY} {days} years ago.",
        "Complains of {PROBLEM} radiating to the {ANATOMY}.",
        "Please check {TEST} before the next dose of {DRUG}.",
        "{DRUG} ({DOSE}) was well tolerated.",
        "Impression: {PROBLEM}. Follow-up with {TEST}.",
        "Walked {days} times along the corridor today.",
        "Reduce {DRUG} by {DOSE} if {PROBLEM} occurs.",
        "{TEST} suggests {PROBLEM} of the {ANATOMY}.",
        "Lives alone, and was visited by the neighbour.",
    ],
)
COUNTS = {"train": 340, "test": 110}
SEED = 20261129


def capital(text):
    return text[:1].upper() + text[1:]


def filled(template, part, random):
    """Returns a sentence and its entities. `part` is 0 for training's words, and 1 for the test's."""
    text, entities, rest = "", [], template
    while "{" in rest:
        before, rest = rest.split("{", 1)
        name, rest = rest.split("}", 1)
        text += before
        if name == "days":
            text += str(random.randint(2, 14))
            continue
        if name == "DOSE":
            amount = random.choice([1, 2.5, 5, 7.5, 10, 20, 25, 40, 50, 75, 100, 125, 250, 500, 750, 850, 1000])
            space = random.choice(["", " ", " "])
            value = f"{amount}{space}{random.choice(UNITS)} {random.choice(FREQUENCIES)}"
        else:
            value = random.choice(WORDS[name][part].split()).replace("_", " ")
        value = value if text else capital(value)
        entities.append((len(text), len(text) + len(value), name))
        text += value
    return text + rest, entities


def note(templates, words, random):
    text, entities = "", []
    for template in random.sample(TEMPLATES[templates], random.randint(1, 3)):
        sentence, found = filled(template, words, random)
        start = len(text) + (1 if text else 0)
        text += (" " if text else "") + sentence
        entities += [{"start": start + a, "end": start + b, "label": label} for a, b, label in found]
    return {"text": text, "entities": entities}


def main():
    path = sys.argv[1]
    new = sys.argv[sys.argv.index("--test") + 1] if "--test" in sys.argv else "both"
    templates, words = {"both": (1, 1), "templates": (1, 0), "words": (0, 1)}[new]
    made = []
    for split, parts in [("train", (0, 0)), ("test", (templates, words))]:
        source = random.Random(f"{SEED} {split}")
        made += [{**note(*parts, source), "split": split} for _ in range(COUNTS[split])]
    with open(path, "w", encoding="utf-8") as file:
        for item in made:
            file.write(json.dumps(item, ensure_ascii=False, separators=(",", ":")) + "\n")


main()
