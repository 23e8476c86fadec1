"""How well documents are found, on questions of which a third was never used for tuning."""

from tests.retrieval.measure import LANGUAGES, build_baseline, build_search, measure, read_documents, read_questions


def test_there_are_enough_questions_and_documents_and_each_question_has_one() -> None:
    names = [name for name, _, _ in read_documents()]
    tuning, held = read_questions("tuning"), read_questions("held")
    assert len(names) == len(set(names)) >= 300
    assert len(tuning) + len(held) >= 150
    assert 3 * len(held) >= len(tuning) + len(held)
    assert {question.document for question in (*tuning, *held)} <= set(names)
    assert not {question.document for question in tuning} & {question.document for question in held}
    assert {question.language for question in held} == set(LANGUAGES)
    fresh = {question.document for question in read_questions("fresh")}
    assert fresh <= set(names)
    assert not fresh & {question.document for question in (*tuning, *held)}


async def test_nine_of_ten_are_found_among_the_first_five_and_the_vectors_earn_their_place() -> None:
    questions = [*read_questions("tuning"), *read_questions("held")]
    plain = await measure(build_baseline(), questions)
    words = await measure(await build_search(has_vectors=False), questions)
    whole = await measure(await build_search(), questions)
    assert whole.recall >= 0.9
    assert whole.ndcg > words.ndcg > plain.ndcg
    assert whole.recall > words.recall > plain.recall


async def test_three_of_four_fresh_german_questions_are_found() -> None:
    questions = read_questions("fresh")
    assert (await measure(await build_search(), questions)).recall >= 0.75
